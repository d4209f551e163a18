"""Whether another version of a topology can go on from a checkpoint of an earlier one, and with what. Pure.

A checkpoint has the state of every partition. Operators that are as they were go on with theirs, and those
that are new begin without any. Where an operator's state would not fit, the reason is told, with its place in
the specification: under another name the operator begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from domain.topology.graph import Topology
from domain.topology.spec import FieldProblem, OperatorSpec

ANEW = "Start it from its first tuple"
"""What is always possible."""


class StateCatalogue(Protocol):
    """On which parameters the state of an operator depends; None where it keeps none."""

    def state_params(self, kind: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """problems: why the version cannot go on, empty where it can. added: partitions that begin without state;
    removed: those that are gone, with their state. changed: operators that give other rows than they did in
    the earlier version, or gave none there, in topological order."""

    problems: tuple[FieldProblem, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def same_rows(self) -> bool:
        """Whether what is in the outputs is what this version would have given."""
        return not self.changed


def continuation(before: Topology, after: Topology, catalogue: StateCatalogue) -> Continuation:
    """What becomes of the state of `before` in `after`; sources of both say from which moment event time
    counts (`origin`)."""
    old, new = set(before.partitions), set(after.partitions)
    return Continuation(
        problems=(*_input_problems(before, after), *_state_problems(before, after, catalogue)),
        added=tuple(one for one in after.partitions if one not in old),
        removed=tuple(one for one in before.partitions if one not in new),
        changed=tuple(_changed(before, after)),
    )


def _input_problems(before: Topology, after: Topology) -> list[FieldProblem]:
    """Epochs name slices of the sources, by number: both must mean the same input."""
    found: list[FieldProblem] = []
    if before.spec.epoch_interval != after.spec.epoch_interval:
        what = f"epochs are numbered, and were {before.spec.epoch_interval:g} s long"
        found.append(FieldProblem("epoch_interval", f"{what}. {ANEW}, or keep the interval."))
    paths = _paths(after)
    earlier = {source.name: source for source in before.sources}
    for source in after.sources:
        known = earlier.pop(source.name, None)
        if known is None:
            what = f"source {source.name!r} is new, and earlier epochs read nothing of it"
            found.append(FieldProblem(paths[source.name], f"{what}. {ANEW}."))
        elif parts := _differences(known, source):
            what = f"source {source.name!r} reads another input than its earlier epochs did"
            found.append(FieldProblem(f"{paths[source.name]}.{parts[0]}", f"{what}. {ANEW}."))
    for name in earlier:
        found.append(FieldProblem("operators", f"source {name!r} is missing. {ANEW}, or keep it."))
    if before.deterministic != after.deterministic:
        what = "outputs of operators that are not deterministic are stored otherwise than those of others"
        found.append(FieldProblem("operators", f"{what}, and only one of the versions has some. {ANEW}."))
    return found


def _state_problems(before: Topology, after: Topology, catalogue: StateCatalogue) -> list[FieldProblem]:
    """Operators whose state is of another kind, cut otherwise, or made from other inputs."""
    paths, found = _paths(after), list[FieldProblem]()
    for operator in after.operators:
        known = before.by_name.get(operator.name)
        if known is None or not operator.inputs or not known.inputs:
            continue
        part = _misfit(before, after, known, operator, catalogue)
        if part:
            what = f"the state of operator {operator.name!r} does not fit: {_told(known, operator, part)}"
            hint = f"Give it another name, so that it begins without state. Or: {ANEW[:1].lower()}{ANEW[1:]}."
            found.append(FieldProblem(f"{paths[operator.name]}.{part}", f"{what}. {hint}"))
    return found


def _misfit(
    before: Topology, after: Topology, known: OperatorSpec, operator: OperatorSpec, catalogue: StateCatalogue
) -> str:
    """The field because of which an operator cannot go on with the state it had; "" if it can."""
    if _feeds_back(before, known) != _feeds_back(after, operator):
        return "name"
    needed = catalogue.state_params(known.kind, known.params)
    if needed is None and not _feeds_back(before, known):
        return ""
    for part in _differences(known, operator):
        same_kind = operator.kind == known.kind
        if part != "params" or not same_kind or needed != catalogue.state_params(known.kind, operator.params):
            return part
    return ""


def _differences(before: OperatorSpec, after: OperatorSpec) -> list[str]:
    """The fields that decide what an operator computes, as far as they differ."""
    one, other = _computed(before), _computed(after)
    return [name for name in one if one[name] != other[name]]


def _computed(operator: OperatorSpec) -> Mapping[str, Any]:
    return {
        "kind": operator.kind,
        "parallelism": operator.parallelism,
        "inputs": operator.inputs,
        "params": operator.params,
    }


def _told(before: OperatorSpec, after: OperatorSpec, part: str) -> str:
    if part == "name":
        return "what is in transit on its feedback stream is a part of it"
    if part == "parallelism":
        return f"it is that of {before.parallelism} partitions, not of {after.parallelism}"
    if part == "kind":
        return f"it is that of a {before.kind}, not of a {after.kind}"
    return f"its {part} were other ones"


def _changed(before: Topology, after: Topology) -> list[str]:
    """Operators with other rows: themselves another one, or below one that is."""
    changed: set[str] = set()
    for operator in after.operators:
        known = before.by_name.get(operator.name)
        if known is None or known.output != operator.output or _differences(known, operator):
            changed.add(operator.name)
    grown = True
    while grown:  # feedback streams lead upwards
        below = {
            operator.name
            for operator in after.operators
            if any(stream.source in changed for stream in operator.inputs)
        }
        grown = not below <= changed
        changed |= below
    return [operator.name for operator in after.operators if operator.name in changed]


def _feeds_back(topology: Topology, operator: OperatorSpec) -> bool:
    """Whether rows that it sent in one epoch are read in the next: its state has them."""
    return any(
        stream.feedback and stream.source == operator.name
        for target in topology.operators
        for stream in target.inputs
    )


def _paths(topology: Topology) -> dict[str, str]:
    return {operator.name: f"operators[{i}]" for i, operator in enumerate(topology.spec.operators)}
