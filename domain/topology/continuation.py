"""Whether another version of a topology can go on from a checkpoint of an earlier one, and with what. Pure.

A checkpoint has the state of every partition. Operators that are as they were go on with theirs, and those
that are new begin without any. Where keys are in other partitions than before, the state is divided anew.
Where an operator's state would not fit, the reason is told, with its place in the specification: under
another name the operator begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from domain.topology.copies import operator_of
from domain.topology.graph import Topology
from domain.topology.routing import ColumnCatalogue, Routing, routings_of
from domain.topology.spec import FieldProblem, OperatorSpec

ANEW = "Start it from its first tuple"
"""What is always possible."""
EVERY_COLUMN: Final = "*"
"""Among the columns of a state: it has whole input rows."""
KEYLESS: Final = "-"
"""Among the columns of a state: it has nothing of any single row, such as the end of the last window."""


class StateCatalogue(ColumnCatalogue, Protocol):
    """state_params: on which parameters the state of an operator depends; None where it keeps none.
    state_columns: the columns of input rows by which its state can be divided; none where it cannot.
    state_by_input: whether each table of the state is of one input."""

    def state_params(self, kind: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None: ...

    def state_columns(self, kind: str, params: Mapping[str, Any]) -> Sequence[str]: ...

    def state_by_input(self, kind: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """problems: why the version cannot go on, empty where it can. added: partitions that begin without state;
    removed: those that are gone, with their state. divided: operators whose state is divided anew among
    their partitions, none of which is in `added` or `removed`. changed: operators that give other rows than
    they did in the earlier version, or gave none there. Operators are in topological order."""

    problems: tuple[FieldProblem, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    divided: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def same_rows(self) -> bool:
        """Whether what is in the outputs is what this version would have given."""
        return not self.changed


def continuation(before: Topology, after: Topology, catalogue: StateCatalogue) -> Continuation:
    """What becomes of the state of `before` in `after`; sources of both say from which moment event time
    counts (`origin`)."""
    problems, divided = _states(before, after, catalogue)
    old, new = set(before.partitions), set(after.partitions)
    return Continuation(
        problems=(*_input_problems(before, after), *problems),
        added=tuple(one for one in after.partitions if one not in old and operator_of(one) not in divided),
        removed=tuple(one for one in before.partitions if one not in new and operator_of(one) not in divided),
        divided=tuple(divided),
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


def _states(
    before: Topology, after: Topology, catalogue: StateCatalogue
) -> tuple[list[FieldProblem], list[str]]:
    """Operators whose state does not fit, and those whose state has to be divided anew."""
    paths, problems, divided = _paths(after), list[FieldProblem](), list[str]()
    earlier, later = routings_of(before, catalogue), routings_of(after, catalogue)
    for operator in after.operators:
        known = before.by_name.get(operator.name)
        if known is None or not operator.inputs or not known.inputs:
            continue
        state = _State(known, operator, _feeds_back(before, known), catalogue)
        field, why = state.misfit(_feeds_back(after, operator))
        if not field and state.kept and not _same(known, operator, earlier, later):
            field, why = state.indivisible(after, earlier[known.name], later[operator.name])
            if not field:
                divided.append(operator.name)
        if field:
            what = f"the state of operator {operator.name!r} does not fit: {why}"
            hint = f"Give it another name, so that it begins without state. Or: {ANEW[:1].lower()}{ANEW[1:]}."
            problems.append(FieldProblem(f"{paths[operator.name]}.{field}", f"{what}. {hint}"))
    return problems, divided


@dataclass(frozen=True, slots=True)
class _State:
    """That of an operator which both versions have. sends: whether it has rows in transit on a feedback
    stream."""

    before: OperatorSpec
    after: OperatorSpec
    sends: bool
    catalogue: StateCatalogue

    @property
    def kept(self) -> bool:
        return self.sends or self._params(self.before) is not None

    def misfit(self, sends: bool) -> tuple[str, str]:
        """The field because of which the operator cannot go on with the state it had, and why; empty if only
        partitions may be other ones. sends: whether it has rows in transit in the later version."""
        before, after = self.before, self.after
        if self.sends != sends:
            return "name", "what is in transit on its feedback stream is a part of it"
        if not self.kept:
            return "", ""
        if before.kind != after.kind:
            return "kind", f"it is that of a {before.kind}, not of a {after.kind}"
        if _read(before) != _read(after):
            return "inputs", "its inputs were other ones"
        if self._params(before) != self._params(after):
            return "params", "its params were other ones"
        return "", ""

    def indivisible(
        self, topology: Topology, earlier: Mapping[str, Routing], later: Mapping[str, Routing]
    ) -> tuple[str, str]:
        """The field because of which the state cannot be divided among other partitions, and why; empty if
        it can."""
        field = "inputs" if self.before.parallelism == self.after.parallelism else "parallelism"
        counts = f"it is that of {self.before.parallelism} partitions, not of {self.after.parallelism}"
        what = "its rows were in other partitions" if field == "inputs" else counts
        if self.sends and not _sends_by_key(topology, self.after):
            return field, f"{what}, and what is in transit on its feedback stream is not sent by key"
        if self._params(self.before) is None:
            return "", ""
        columns = self.catalogue.state_columns(self.after.kind, self.after.params)
        if not columns:
            return field, f"{what}, and a {self.after.kind} does not say how its state is divided by key"
        for routing in (*earlier.values(), *later.values()) if KEYLESS not in columns else ():
            if routing.single or routing.column in columns or (routing.column and EVERY_COLUMN in columns):
                continue
            by = f"{routing.column!r}, which its state does not have" if routing.column else "no key"
            return field, f"{what}, and its rows are spread by {by}"
        for routings in (earlier, later):
            first, *others = routings.values()
            by_input = self.catalogue.state_by_input(self.after.kind)
            if not by_input and not all(first.same(one) for one in others):
                return field, f"{what}, and its inputs are spread in different ways"
        return "", ""

    def _params(self, operator: OperatorSpec) -> Mapping[str, Any] | None:
        return self.catalogue.state_params(self.before.kind, operator.params)


def _same(
    before: OperatorSpec,
    after: OperatorSpec,
    earlier: Mapping[str, Mapping[str, Routing]],
    later: Mapping[str, Mapping[str, Routing]],
) -> bool:
    """Whether rows reach the same partitions of an operator."""
    one, other = earlier[before.name], later[after.name]
    return before.parallelism == after.parallelism and all(one[name].same(other[name]) for name in one)


def _read(operator: OperatorSpec) -> list[tuple[str, bool]]:
    """From which operators it reads, and which of the streams are feedback streams."""
    return [(stream.source, stream.feedback) for stream in operator.inputs]


def _sends_by_key(topology: Topology, operator: OperatorSpec) -> bool:
    """Whether each of its partitions may send any row on its feedback streams."""
    return all(
        stream.partitioning == "full" or target.parallelism == 1
        for target in topology.operators
        for stream in target.inputs
        if stream.feedback and stream.source == operator.name
    )


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
