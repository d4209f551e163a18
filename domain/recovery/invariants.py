"""What must hold of an incident between any two events. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from domain.recovery.incident import (
    ENDED_PHASES,
    PLAN_PHASES,
    Deployment,
    Phase,
    Request,
    State,
    TopologyCase,
)


def problems_of(
    state: State,
    cases: Mapping[str, TopologyCase],
    deployments: Mapping[str, Deployment],
    requests: Collection[Request],
) -> Iterator[str]:
    """Each rule that does not hold, as a sentence for the error message. cases, deployments: by topology."""
    for name, case in cases.items():
        yield from _problems_of_case(name, case, deployments.get(name))
    if state is State.CLOSED:
        unfinished = [name for name, case in cases.items() if case.phase not in ENDED_PHASES]
        if unfinished:
            yield f"closed, but {unfinished} are unfinished"
    keys = [(request.lost_node, request.attempt) for request in requests]
    if len(keys) != len(set(keys)):
        yield f"asked twice for the same replacement: {keys}"


def _problems_of_case(name: str, case: TopologyCase, deployment: Deployment | None) -> Iterator[str]:
    if case.name != name:
        yield f"the case of {case.name} is kept as {name}"
    if case.phase is Phase.VERIFYING and case.failed:
        yield f"{name}: verifying with {sorted(case.failed)} failed"
    if case.moves and case.phase not in (Phase.FAILED, Phase.REPLAYING):
        yield f"{name}: {case.phase} with {sorted(case.moves)} to move"
    if case.phase is Phase.DROPPED and (case.anything_left or case.origin is not None):
        yield f"{name}: dropped, but something is left to do: {case}"
    if not case.unrestored <= case.failed:
        yield f"{name}: {sorted(case.unrestored - case.failed)} were not restored, but are not failed"
    if case.phase in PLAN_PHASES and case.wave == 0:
        yield f"{name}: {case.phase} without a plan"
    if deployment is None:
        return
    if case.phase in PLAN_PHASES and not deployment.unassigned <= case.failed:
        forgotten = sorted(deployment.unassigned - case.failed)
        yield f"{name}: {forgotten} are neither running nor failed"
    if case.generation > deployment.generation:
        yield f"{name}: plan {case.generation} is ahead of generation {deployment.generation}"
