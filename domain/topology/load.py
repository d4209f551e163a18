"""From untrusted YAML, JSON or stored data to a validated topology: all problems, each with its path."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

import rustworkx as rx
import yaml

from domain.topology.graph import Topology
from domain.topology.shape import shape_read
from domain.topology.spec import (
    MAX_CHANNELS,
    MAX_PARTITIONS,
    FieldProblem,
    OperatorSpec,
    TopologySpec,
)

MAX_TEXT = 1_000_000
MAX_VALUES = 200_000
MAX_DEPTH = 100
"""Bounds of an untrusted text: its characters, the values it stands for, and their nesting."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TopologyError(ValueError):
    """The specification cannot be used; `problems` says what and where."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class Catalogue(Protocol):
    """The operator kinds that can run here. The domain does not know them; the data plane does."""

    def kinds(self) -> list[str]: ...

    def is_source(self, kind: str) -> bool: ...

    def problems(self, kind: str, params: Mapping[str, Any]) -> list[str]: ...


def load_yaml(text: str) -> dict[str, Any]:
    """Parse YAML or JSON into plain data; raises `TopologyError` with line and column."""
    if len(text) > MAX_TEXT:
        raise TopologyError([FieldProblem("", f"{len(text)} characters; at most {MAX_TEXT} are read")])
    try:
        _shallow_require(text)
        data = yaml.load(text, _Loader)  # noqa: S506 - both loaders are the safe ones
    except TopologyError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "file"
        message = getattr(error, "problem", None) or "not YAML"
        raise TopologyError([FieldProblem(where, str(message))]) from error
    except ValueError as error:  # a date that is none, a number of thousands of digits
        raise TopologyError([FieldProblem("", f"not YAML: {error}")]) from error
    if not isinstance(data, dict):
        raise TopologyError([FieldProblem("", "a topology is a mapping with `name` and `operators`")])
    _plain_require(data)
    return data


def _shallow_require(text: str) -> None:
    """Refuse deep nesting before values are made of it: that goes down the stack, events do not.
    Raises `TopologyError` and `YAMLError`."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                where = f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
                raise TopologyError([FieldProblem(where, f"nested more than {MAX_DEPTH} levels deep")])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _plain_require(data: Any) -> None:
    """Refuse what is not a tree of plain values of a bearable size: aliases may repeat themselves without
    end, and YAML knows dates. Raises `TopologyError`."""
    waiting: list[tuple[str, int, Any]] = [("", 0, data)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        path, depth, value = waiting.pop()
        if depth > MAX_DEPTH:
            raise TopologyError([FieldProblem(path, f"nested more than {MAX_DEPTH} levels deep")])
        if isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise TopologyError([FieldProblem(path, f"the key {key!r:.60} is not a text; quote it")])
                waiting.append((f"{path}.{key}".lstrip("."), depth + 1, inner))
        elif isinstance(value, list):
            waiting.extend((f"{path}[{index}]", depth + 1, inner) for index, inner in enumerate(value))
        else:
            _scalar_require(path, value)
    raise TopologyError([FieldProblem("", f"more than {MAX_VALUES} values")])


def _scalar_require(path: str, value: Any) -> None:
    match value:
        case str() if "\x00" in value or (not value.isascii() and _SURROGATE.search(value)):
            raise TopologyError([FieldProblem(path, f"{value!r:.60} has characters that no text can have")])
        case float() if not math.isfinite(value):
            raise TopologyError([FieldProblem(path, f"{value} is no number that can be stored")])
        case str() | float() | int() | None:
            return
        case _:
            raise TopologyError(
                [FieldProblem(path, f"{value!r:.60} is not plain data; quote it to mean a text")]
            )


def load_topology(data: Mapping[str, Any], catalogue: Catalogue) -> Topology:
    """Validate a specification and build its graph; raises `TopologyError` naming all problems found."""
    spec, problems = shape_read(data)
    reported = frozenset(problem.path for problem in problems)
    further = [
        *_operator_problems(spec, catalogue),
        *_stream_problems(spec, reported),
        *_size_problems(spec),
        *([] if reported else _output_problems(spec)),
    ]
    # Consequences of a reported fault are not reported again.
    problems += [problem for problem in further if not _is_below(problem.path, reported)]
    if not problems:
        problems = _cycle_problems(spec)
    if problems:
        raise TopologyError(problems)
    return Topology(spec)


def _is_below(path: str, reported: Iterable[str]) -> bool:
    return any(path == other or path.startswith((f"{other}.", f"{other}[")) for other in reported)


def _operator_problems(spec: TopologySpec, catalogue: Catalogue) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    if not spec.operators:
        problems.append(FieldProblem("operators", "a topology needs at least one operator"))
    seen: dict[str, int] = {}
    kinds = set(catalogue.kinds())
    for index, operator in enumerate(spec.operators):
        path = f"operators[{index}]"
        if operator.name in seen:
            problems.append(
                FieldProblem(
                    f"{path}.name", f"operator {operator.name!r} is already operators[{seen[operator.name]}]"
                )
            )
        seen.setdefault(operator.name, index)
        if operator.kind not in kinds:
            known = ", ".join(sorted(kinds))
            problems.append(
                FieldProblem(f"{path}.kind", f"unknown operator kind {operator.kind!r}; known: {known}")
            )
            continue
        problems += [
            FieldProblem(f"{path}.params", text)
            for text in catalogue.problems(operator.kind, operator.params)
        ]
        if catalogue.is_source(operator.kind) and operator.inputs:
            problems.append(FieldProblem(f"{path}.inputs", f"source {operator.name!r} takes no inputs"))
        if not catalogue.is_source(operator.kind) and not operator.inputs:
            problems.append(
                FieldProblem(f"{path}.inputs", f"operator {operator.name!r} needs at least one input")
            )
    return problems


def _output_problems(spec: TopologySpec) -> list[FieldProblem]:
    if not spec.operators or any(operator.output for operator in spec.operators):
        return []
    return [FieldProblem("operators", "no operator has `output: true`, so the topology has no query")]


def _size_problems(spec: TopologySpec) -> list[FieldProblem]:
    """A graph too large for memory is refused before it is built."""
    width = {operator.name: operator.parallelism for operator in spec.operators}
    partitions = sum(width.values())
    if partitions > MAX_PARTITIONS:
        return [
            FieldProblem(
                "operators", f"{partitions} partitions in all; at most {MAX_PARTITIONS} are possible"
            )
        ]
    channels = sum(
        width.get(stream.source, 0) * operator.parallelism
        for operator in spec.operators
        for stream in operator.inputs
        if stream.partitioning == "full"
    )
    if channels > MAX_CHANNELS:
        return [
            FieldProblem(
                "operators", f"{channels} channels between partitions; at most {MAX_CHANNELS} are possible"
            )
        ]
    return []


def _stream_problems(spec: TopologySpec, reported: Collection[str]) -> list[FieldProblem]:
    """`reported`: paths of faults that are known; what was put in their place says nothing about streams."""
    problems: list[FieldProblem] = []
    by_name = {operator.name: operator for operator in spec.operators}
    sized = {
        operator.name: f"operators[{index}].parallelism" not in reported
        for index, operator in enumerate(spec.operators)
    }
    for index, operator in enumerate(spec.operators):
        used: set[str] = set()
        for position, stream in enumerate(operator.inputs):
            path = f"operators[{index}].inputs[{position}]"
            source = by_name.get(stream.source)
            if source is None:
                problems.append(FieldProblem(f"{path}.from", f"there is no operator {stream.source!r}"))
                continue
            if stream.source in used:
                problems.append(
                    FieldProblem(f"{path}.from", f"{operator.name!r} subscribes to {stream.source!r} twice")
                )
            used.add(stream.source)
            if stream.feedback:
                problems.append(FieldProblem(f"{path}.feedback", "back-edges are not run by this version"))
            mismatch = _parallelism_mismatch(source, operator, stream.partitioning)
            if mismatch and sized[source.name] and sized[operator.name]:
                problems.append(FieldProblem(f"{path}.partitioning", mismatch))
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


def _cycle_problems(spec: TopologySpec) -> list[FieldProblem]:
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
    return [FieldProblem("operators", f"cycle without a `feedback` stream: {path}")]
