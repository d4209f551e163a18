"""From untrusted YAML, JSON or stored data to a validated topology: all problems, each with its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import rustworkx as rx
import yaml

from controlplane.domain.topology.graph import Topology
from controlplane.domain.topology.spec import OperatorSpec, Problem, TopologySpec


class TopologyError(ValueError):
    """The specification cannot be used; `problems` says what and where."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class Catalogue(Protocol):
    """The operator kinds that can run here. The domain does not know them; the data plane does."""

    def kinds(self) -> list[str]: ...

    def is_source(self, kind: str) -> bool: ...

    def problems(self, kind: str, params: Mapping[str, Any]) -> list[str]: ...


def load_yaml(text: str) -> dict[str, Any]:
    """Parse YAML or JSON into plain data; raises `TopologyError` with line and column."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "file"
        message = getattr(error, "problem", None) or "not YAML"
        raise TopologyError([Problem(where, str(message))]) from error
    if not isinstance(data, dict):
        raise TopologyError([Problem("", "a topology is a mapping with `name` and `operators`")])
    return data


def load_topology(data: Mapping[str, Any], catalogue: Catalogue) -> Topology:
    """Validate a specification and build its graph; raises `TopologyError` naming all problems found."""
    try:
        spec = msgspec.convert(data, TopologySpec)
    except msgspec.ValidationError as error:
        raise TopologyError([_conversion_problem(error, data)]) from error
    problems = _operator_problems(spec, catalogue)
    problems += _stream_problems(spec, catalogue)
    if not problems:
        problems = _cycle_problems(spec)
    if problems:
        raise TopologyError(problems)
    return Topology(spec)


def _conversion_problem(error: msgspec.ValidationError, data: Mapping[str, Any]) -> Problem:
    message, _, where = str(error).partition(" - at `")
    path = where.rstrip("`").removeprefix("$").removeprefix(".")
    if "matching regex" in message:
        message = (
            "an operator's name starts with a letter and has up to 64 letters, digits and underscores"
            if path.startswith("operators")
            else "a topology's name starts with a small letter and has small letters, digits and dashes"
        )
    for index, operator in enumerate(data.get("operators") or ()):
        if path.startswith(f"operators[{index}]") and isinstance(operator, Mapping):
            message += f" (operator {operator.get('name', '?')!r})"
    return Problem(path, message)


def _operator_problems(spec: TopologySpec, catalogue: Catalogue) -> list[Problem]:
    problems: list[Problem] = []
    if not spec.operators:
        problems.append(Problem("operators", "a topology needs at least one operator"))
    seen: dict[str, int] = {}
    kinds = set(catalogue.kinds())
    for index, operator in enumerate(spec.operators):
        path = f"operators[{index}]"
        if operator.name in seen:
            problems.append(
                Problem(
                    f"{path}.name", f"operator {operator.name!r} is already operators[{seen[operator.name]}]"
                )
            )
        seen.setdefault(operator.name, index)
        if operator.kind not in kinds:
            known = ", ".join(sorted(kinds))
            problems.append(
                Problem(f"{path}.kind", f"unknown operator kind {operator.kind!r}; known: {known}")
            )
            continue
        problems += [
            Problem(f"{path}.params", text) for text in catalogue.problems(operator.kind, operator.params)
        ]
        if catalogue.is_source(operator.kind) and operator.inputs:
            problems.append(Problem(f"{path}.inputs", f"source {operator.name!r} takes no inputs"))
        if not catalogue.is_source(operator.kind) and not operator.inputs:
            problems.append(Problem(f"{path}.inputs", f"operator {operator.name!r} needs at least one input"))
    if spec.operators and not any(operator.output for operator in spec.operators):
        problems.append(Problem("operators", "no operator has `output: true`, so the topology has no query"))
    return problems


def _stream_problems(spec: TopologySpec, catalogue: Catalogue) -> list[Problem]:
    problems: list[Problem] = []
    by_name = {operator.name: operator for operator in spec.operators}
    for index, operator in enumerate(spec.operators):
        used: set[str] = set()
        for position, stream in enumerate(operator.inputs):
            path = f"operators[{index}].inputs[{position}]"
            source = by_name.get(stream.source)
            if source is None:
                problems.append(Problem(f"{path}.from", f"there is no operator {stream.source!r}"))
                continue
            if stream.source in used:
                problems.append(
                    Problem(f"{path}.from", f"{operator.name!r} subscribes to {stream.source!r} twice")
                )
            used.add(stream.source)
            if stream.feedback:
                problems.append(Problem(f"{path}.feedback", "back-edges are not run by this version"))
            mismatch = _parallelism_mismatch(source, operator, stream.partitioning)
            if mismatch:
                problems.append(Problem(f"{path}.partitioning", mismatch))
    return problems


def _parallelism_mismatch(source: OperatorSpec, target: OperatorSpec, partitioning: str) -> str:
    m, n = source.parallelism, target.parallelism
    sizes = f"{source.name} has parallelism {m}, {target.name} has {n}"
    if partitioning == "one_to_one" and m != n:
        return f"one_to_one needs the same parallelism on both sides; {sizes}"
    if partitioning == "split" and (n % m or n < m):
        return f"split needs a target parallelism that is a multiple of the source's; {sizes}"
    if partitioning == "merge" and (m % n or m < n):
        return f"merge needs a source parallelism that is a multiple of the target's; {sizes}"
    return ""


def _cycle_problems(spec: TopologySpec) -> list[Problem]:
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    nodes = {operator.name: graph.add_node(operator.name) for operator in spec.operators}
    for operator in spec.operators:
        for stream in operator.inputs:
            if not stream.feedback:
                graph.add_edge(nodes[stream.source], nodes[operator.name], None)
    cycle = rx.digraph_find_cycle(graph)
    if not cycle:
        return []
    names = [graph[source] for source, _ in cycle]
    path = " -> ".join([*names, names[0]])
    return [Problem("operators", f"cycle without a `feedback` stream: {path}")]
