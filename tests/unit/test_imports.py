"""Modules and packages never import each other in a circle, at any level (decision 0015)."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import grimp
import rustworkx

from host.environment import ROOT

PACKAGES = (
    "domain",
    "host",
    "coordination",
    "spark_jobs",
    "controlplane",
    "dashboard",
    "workers",
    "supervision",
    "cli",
)
COMPOSITION_ROOT = "controlplane.config.urls"
"""The composition root: it includes the addresses of the dashboard."""

Edges = Mapping[str, set[str]]


@cache
def imports() -> Edges:
    """Module to the modules it imports, also inside functions, for types only, and by `include("...")`."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    edges = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for module in edges:
        if module != COMPOSITION_ROOT:
            edges[module] |= included(module)
    return edges


def included(module: str) -> set[str]:
    """The modules from which Django loads addresses."""
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "include"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def circles(edges: Edges) -> list[list[str]]:
    """The strongly connected components of more than one member."""
    graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph()
    index = {
        name: graph.add_node(name) for name in {*edges, *(one for some in edges.values() for one in some)}
    }
    graph.add_edges_from_no_data([(index[one], index[other]) for one in edges for other in edges[one]])
    found = rustworkx.strongly_connected_components(graph)
    return sorted(sorted(graph[one] for one in members) for members in found if len(members) > 1)


def members(edges: Edges) -> Iterator[tuple[str, Edges]]:
    """For every package, how its direct members (modules, packages) import each other; "" holds the top-level
    packages, "controlplane" the Django apps."""
    inside: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, imported in edges.items():
        one = module.split(".")
        for target in imported:
            other = target.split(".")
            shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
            if shared is not None:
                parent = ".".join(one[:shared])
                inside[parent][".".join(one[: shared + 1])].add(".".join(other[: shared + 1]))
    yield from inside.items()


def test_no_module_imports_itself_through_others() -> None:
    assert circles(imports()) == []


def test_no_members_of_a_package_import_each_other() -> None:
    found = {package: circles(edges) for package, edges in members(imports())}
    assert {"", "controlplane", "domain"} <= found.keys()
    assert {package: some for package, some in found.items() if some} == {}


def test_a_circle_is_found() -> None:
    edges = {"a.b.one": {"a.c.two"}, "a.c.three": {"a.b.four"}, "a.c.two": set[str]()}
    assert circles(edges) == [], "no circle of modules"
    assert [circles(inside) for _, inside in members(edges)] == [[["a.b", "a.c"]]]


def test_nothing_but_tests_imports_tests() -> None:
    graph = grimp.build_graph(*PACKAGES, "benchmarks", "tests", cache_dir=None)
    importing = {
        importer
        for module in graph.find_descendants("tests") | {"tests"}
        for importer in graph.find_modules_that_directly_import(module)
    }
    assert {importer for importer in importing if not importer.startswith("tests")} == set()
