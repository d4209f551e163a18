"""What REST and the command line share of taking a specification in: composing it, and checking all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.errors import Invalid
from controlplane.topologies.validation import (
    cpu_requests_set,
    inputs_problems,
    lines_known,
    pipeline_read,
    source_params_override,
    spec_read,
    spec_validate,
)
from domain.topology import FieldProblem, OperatorSpec, Topology


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found: all problems, and the graph where the specification itself is valid."""

    problems: list[FieldProblem]
    topology: Topology | None

    @property
    def valid(self) -> bool:
        return not self.problems

    @property
    def notes(self) -> list[FieldProblem]:
        """What is no fault and should be known: operators that are not known to be deterministic."""
        operators = self.topology.spec.operators if self.topology is not None else ()
        return [
            FieldProblem(f"operators[{index}].deterministic", _note(operator))
            for index, operator in enumerate(operators)
            if operator.doubt and operator.deterministic is not False
        ]


def _note(operator: OperatorSpec) -> str:
    if operator.deterministic:
        return f"{operator.name} is said to be deterministic, which is not checked: {operator.doubt}"
    return (
        f"{operator.name} is taken for not deterministic, so that a failure puts the whole topology back:"
        f" {operator.doubt}; say `deterministic: true` if it is"
    )


def specification_compose(given: Mapping[str, Any]) -> dict[str, Any]:
    """The specification that `spec` (an object or a text) or `pipeline` (a name) gives, with `name` and,
    for its sources, `input`, `rate`, `limit`, `arrivals` and `speedup` replaced where they are given, and
    `cpu_request` set where output operators say nothing. Raises `Invalid`."""
    spec = pipeline_read(given["pipeline"]) if "pipeline" in given else spec_read(given["spec"])
    if given.get("name"):
        spec = {**spec, "name": given["name"]}
    overrides = {name: given.get(name) for name in ("rate", "limit", "arrivals", "speedup")}
    spec = source_params_override(spec, path=given.get("input"), **overrides)
    return cpu_requests_set(spec, given.get("cpu_request"))


def specification_check(given: Mapping[str, Any]) -> Verdict:
    """Everything that would keep what `specification_compose` takes from being accepted or deployed here, but
    for capacity."""
    graph: Topology | None = None
    try:
        with lines_known(given):
            graph = spec_validate(specification_compose(given))
            if problems := inputs_problems(graph.to_data()):
                raise Invalid.from_problems(problems)
    except Invalid as error:
        return Verdict(error.problems, graph)
    return Verdict([], graph)
