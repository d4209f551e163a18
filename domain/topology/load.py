"""From plain data to a validated topology: all problems, each with its path. Texts are read in `text`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from domain.key_saving.every import every_problem
from domain.topology.cycles import proposed_back_edges
from domain.topology.graph import Topology
from domain.topology.shape import shape_read
from domain.topology.spec import (
    MAX_CHANNELS,
    MAX_PARTITIONS,
    FieldProblem,
    KeySavingSpec,
    OperatorSpec,
    TopologyError,
    TopologySpec,
)
from domain.topology.wording import suggestion


class Catalogue(Protocol):
    """The operator kinds that can run here. The domain does not know them; the data plane does."""

    def kinds(self) -> list[str]: ...

    def is_source(self, kind: str) -> bool: ...

    def problems(self, kind: str, params: Mapping[str, Any]) -> list[str]: ...

    def doubt(self, kind: str, params: Mapping[str, Any]) -> str: ...

    def inputs_taken(self, kind: str) -> int | None: ...

    def joins(self, kind: str) -> bool: ...

    def state_params(self, kind: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None: ...

    def columns(self, spec: TopologySpec) -> Mapping[str, Sequence[str]]: ...


def load_topology(data: Mapping[str, Any], catalogue: Catalogue) -> Topology:
    """Validate a specification and build its graph; raises `TopologyError` naming all problems found."""
    spec, problems = shape_read(data)
    reported = frozenset(problem.path for problem in problems)
    further = [
        *_operator_problems(spec, catalogue),
        *_stream_problems(spec, reported),
        *_checkpoint_problems(spec),
        *_guarantee_problems(spec, catalogue),
        *_size_problems(spec),
        *([] if reported else _output_problems(spec)),
    ]
    # Consequences of a reported fault are not reported again.
    problems += [problem for problem in further if not _is_below(problem.path, reported)]
    if not problems:
        problems = _cycle_problems(spec) or _key_problems(spec, catalogue)
    if problems:
        raise TopologyError(problems)
    return Topology(_with_what_is_known(spec, catalogue))


def _with_what_is_known(spec: TopologySpec, catalogue: Catalogue) -> TopologySpec:
    """What is stored and run names the doubts that there were when the specification was accepted, and says
    of joins that they are."""
    operators = (
        msgspec.structs.replace(
            operator,
            doubt=catalogue.doubt(operator.kind, operator.params),
            correlated=operator.correlated or catalogue.joins(operator.kind),
        )
        for operator in spec.operators
    )
    return msgspec.structs.replace(spec, operators=tuple(operators))


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
            known = f"{', '.join(sorted(kinds))}{suggestion(operator.kind, kinds)}"
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
        taken = catalogue.inputs_taken(operator.kind)
        if taken is not None and operator.inputs and len(operator.inputs) != taken:
            many = f"takes {taken} inputs, not {len(operator.inputs)}"
            problems.append(
                FieldProblem(f"{path}.inputs", f"operator {operator.name!r} ({operator.kind}) {many}")
            )
    return problems


def _output_problems(spec: TopologySpec) -> list[FieldProblem]:
    if not spec.operators or any(operator.output for operator in spec.operators):
        return []
    return [FieldProblem("operators", "no operator has `output: true`, so the topology has no query")]


def _checkpoint_problems(spec: TopologySpec) -> list[FieldProblem]:
    """Several at a time are what a pause between them, and epochs that wait for each, exclude."""
    if spec.checkpoints_at_once == 1:
        return []
    path = "checkpoints_at_once"
    if spec.checkpoint_mode == "synchronous":
        return [FieldProblem(path, "must be 1 where `checkpoint_mode` is synchronous")]
    if spec.checkpoint_pause:
        return [FieldProblem(path, "must be 1 where there is a `checkpoint_pause` between two checkpoints")]
    return []


def _guarantee_problems(spec: TopologySpec, catalogue: Catalogue) -> list[FieldProblem]:
    """What a bounded guarantee excludes, and how often the states of keys are stored."""
    texts = [("key_saving.every", spec.key_saving.every)]
    texts += [(f"operators[{i}].every", one.every) for i, one in enumerate(spec.operators) if one.every]
    problems = [FieldProblem(path, why) for path, text in texts if (why := every_problem(text))]
    if not spec.bounded:
        given = [path for path, _ in texts[1:]] + ["key_saving"] * (spec.key_saving != KeySavingSpec())
        why = "has no effect where the guarantee is exact: set `guarantee: bounded`, or leave it out"
        return problems + [FieldProblem(path, why) for path in given]
    kinds = set(catalogue.kinds())
    problems += [
        FieldProblem(f"operators[{i}].every", f"has no effect: {one.name!r} ({one.kind}) keeps no state")
        for i, one in enumerate(spec.operators)
        if one.every and one.kind in kinds and catalogue.state_params(one.kind, one.params) is None
    ]
    if spec.checkpoint_mode == "synchronous":
        what = "must be asynchronous where the guarantee is bounded, which has no checkpoint of the whole"
        problems.append(FieldProblem("checkpoint_mode", what))
    problems += [
        FieldProblem(
            f"operators[{i}].inputs[{at}].feedback",
            "a feedback stream needs `guarantee: exact`: a partition that was lost has nothing to send on it",
        )
        for i, operator in enumerate(spec.operators)
        for at, stream in enumerate(operator.inputs)
        if stream.feedback
    ]
    return problems


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
                close = suggestion(stream.source, by_name)
                problems.append(
                    FieldProblem(f"{path}.from", f"there is no operator {stream.source!r}{close}")
                )
                continue
            if stream.source in used:
                problems.append(
                    FieldProblem(f"{path}.from", f"{operator.name!r} subscribes to {stream.source!r} twice")
                )
            used.add(stream.source)
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


def _key_problems(spec: TopologySpec, catalogue: Catalogue) -> list[FieldProblem]:
    """Streams that spread rows by a column which these do not have, as far as their columns are known."""
    problems: list[FieldProblem] = []
    columns = catalogue.columns(spec)
    width = {operator.name: operator.parallelism for operator in spec.operators}
    for index, operator in enumerate(spec.operators):
        for at, stream in enumerate(operator.inputs):
            fed = {"full": operator.parallelism, "split": operator.parallelism // width[stream.source]}
            given = columns.get(stream.source, (stream.key,))
            if fed.get(stream.partitioning, 1) > 1 and stream.key not in given:
                listed = ", ".join(given)
                problems.append(
                    FieldProblem(
                        f"operators[{index}].inputs[{at}].key",
                        f"rows of {stream.source!r} have no column {stream.key!r} to be spread by over the"
                        f" {operator.parallelism} partitions of {operator.name!r}, only {listed};"
                        f" name one of these, or another partitioning than {stream.partitioning}",
                    )
                )
    return problems


def _cycle_problems(spec: TopologySpec) -> list[FieldProblem]:
    """Cycles without a feedback stream, each with the stream that could be one; and feedback streams that are
    of no use."""
    problems: list[FieldProblem] = []
    for index, at, cycle in proposed_back_edges(spec):
        path = " -> ".join([*cycle, cycle[0]])
        problems.append(
            FieldProblem(
                "operators",
                f"cycle without a `feedback` stream: {path}; mark the one from {cycle[-1]} to {cycle[0]} "
                f"(operators[{index}].inputs[{at}]) with `feedback: true`, and what {cycle[-1]} sends "
                f"reaches {cycle[0]} an epoch later",
            )
        )
    if problems:
        return problems
    component_of = Topology(spec).component_of
    for index, operator in enumerate(spec.operators):
        mine = component_of.get(operator.name)
        for at, stream in enumerate(operator.inputs):
            if stream.feedback and (mine is None or component_of.get(stream.source) is not mine):
                problems.append(
                    FieldProblem(
                        f"operators[{index}].inputs[{at}].feedback",
                        f"it closes no cycle: nothing that {operator.name!r} sends reaches {stream.source!r}",
                    )
                )
        if operator.inputs and all(stream.feedback for stream in operator.inputs):
            problems.append(
                FieldProblem(
                    f"operators[{index}].inputs",
                    f"{operator.name!r} reads feedback streams only: it needs an input that is none",
                )
            )
    return problems
