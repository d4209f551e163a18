"""Records are worked out with their module, not by the threads that first decode them (decision 0013)."""

from __future__ import annotations

import ast
import gc
import importlib
from collections.abc import Iterator

import msgspec
import pytest

from host.environment import ROOT
from workers.providers.base import NodeDescription

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
WRITTEN_ONLY = {
    *("Finding", "FieldProblem", "QueryResult", "Recent", "Verification"),
    *("OperatorDescription", "OperatorColumn", "OperatorColumns", "OperatorInput", "Parameter"),
    *("OperatorLog", "LogSource", "ShownLine", "UnreadLog", "OperatorProblem", "OperatorRows"),
}
NEITHER = {
    *("Acknowledge", "Batch", "DropDuplicate", "Process", "Processed", "SnapshotRequest"),
    *("RunJob", "_Fact"),
}
"""Events and instructions, which never leave their process, and what all facts have in common."""


def modules() -> Iterator[str]:
    """Those that define a struct."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.is_relative_to(ROOT / "dashboard" / "frontend"):
                continue
            text = path.read_text()
            if "msgspec.Struct" not in text:  # most modules, and parsing all of them takes seconds
                continue
            classes = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ClassDef))
            if any(ast.unparse(base) == "msgspec.Struct" for one in classes for base in one.bases):
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def worked_out(kind: type) -> bool:
    return any(type(one).__name__ == "StructInfo" for one in gc.get_referents(kind))


@pytest.mark.parametrize("name", [*modules()])
def test_a_loaded_record_can_be_decoded_in_threads(name: str) -> None:
    module = importlib.import_module(name)
    defined = {
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == name
    }
    assert defined
    lazy = {one.__name__ for one in defined if not worked_out(one)}
    assert lazy <= WRITTEN_ONLY | NEITHER


def test_so_can_providers_that_find_their_nodes_again() -> None:
    importlib.import_module("workers.providers.local")
    assert "__msgspec_cache__" in vars(NodeDescription)


class Inner(msgspec.Struct):
    one: int | None = None
    two: dict[str, list[int]] = {}


class Outer(msgspec.Struct):
    first: Inner
    second: list[Inner]
    third: dict[str, Inner]


def test_a_decoder_works_out_what_is_nested_too() -> None:
    assert not worked_out(Outer)
    msgspec.json.Decoder(Outer)
    assert worked_out(Outer)
    assert worked_out(Inner)
