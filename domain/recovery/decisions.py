"""What follows from where an incident stands: what methods decide upon, the plan of a wave, the state of the
whole. Functions without effects, called by the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from domain.recovery.blocking import everything_fits
from domain.recovery.incident import (
    ENDED_PHASES,
    Deployment,
    NodeView,
    Phase,
    Request,
    State,
    TopologyCase,
)
from domain.recovery.instructions import CreatePlan
from domain.recovery.memory import Memory
from domain.recovery.method import Situation, Wave
from domain.recovery.policy import INCREMENTAL, MOVE, lost_together, method_choose
from domain.recovery.replacements import expected

_STATE_OF_PHASE = {
    Phase.FAILED: State.ACQUIRING,
    Phase.PLANNED: State.RESTORING,
    Phase.PUBLISHED: State.RESTORING,
    Phase.REPLAYING: State.REPLAYING,
    Phase.VERIFYING: State.VERIFYING,
}


def expedited(
    cases: Mapping[str, TopologyCase], deployments: Mapping[str, Deployment], memory: Memory
) -> frozenset[str]:
    """Topologies that do not wait for replacements: an operator wants the nodes there are to be used, or all
    that is to be restored is on nodes that are being drained."""
    asked = {
        name
        for name, generation in memory.asked.items()
        if generation == generation_of(name, cases, deployments)
    }
    drained = {
        name
        for name, case in cases.items()
        if name in deployments
        and case.failed
        and {deployments[name].assignment.get(p) for p in case.failed} <= memory.drained
    }
    return frozenset(asked | drained)


def nodes_to_plan_with(
    nodes: Mapping[str, NodeView], memory: Memory, now: float, max_utilisation: float
) -> dict[str, NodeView]:
    """The nodes as a plan made `now` may use them: with standbys where something has failed, without those on
    which partitions did not run, and up to their limits."""
    failed = bool(memory.lost or memory.avoided)  # which is what standbys are kept for
    return {
        name: replace(
            node,
            usable=(node.usable or (failed and node.standby)) and not memory.avoids(name, now),
            capacity=_capacity(node, memory, max_utilisation),
        )
        for name, node in nodes.items()
    }


def _capacity(node: NodeView, memory: Memory, max_utilisation: float) -> float:
    """What may be planned with there: less where more proved too much."""
    limits = [limits[node.name] for limits in memory.limits.values() if node.name in limits]
    return min([node.capacity, *((limit + node.load) / max_utilisation for limit in limits)])


def generation_of(
    topology: str, cases: Mapping[str, TopologyCase], deployments: Mapping[str, Deployment]
) -> int:
    """That of a deployed topology now; of one that was undeployed, that of its last plan."""
    if topology in deployments:
        return deployments[topology].generation
    return cases[topology].generation if topology in cases else 0


def method_of(case: TopologyCase, situation: Situation, memory: Memory) -> tuple[str, str]:
    """The method that recovers a topology, and why."""
    deployment = situation.deployments[case.name]
    held = situation.held(case.name)
    moves = _only_moves(case, situation)
    if held and not (moves and case.moves):
        return INCREMENTAL, "some of its queries are parked"
    return method_choose(
        deployment.policy,
        so_far=case.method,
        down=situation.down(case.name),
        moves=moves,
        together=lost_together(
            [moment for moment, _ in memory.loss_times],
            checkpoint_at=deployment.checkpoint_at,
            window=deployment.policy.correlation_window,
        ),
        disturbs=deployment.policy.rollback == "global" or not deployment.topology.deterministic,
        room=lambda: everything_fits(case, situation),
    )


def _only_moves(case: TopologyCase, situation: Situation) -> bool:
    """Whether something is to change its node, and nothing is put back, or down without being parked. What is
    down while others move has found no room."""
    if case.moves:
        return not case.put_back
    wanted = case.failed - situation.held(case.name)
    return bool(wanted) and not case.put_back and not situation.down(case.name) & wanted


def plan_of(case: TopologyCase, deployment: Deployment, wave: Wave, proposal: str | None) -> CreatePlan:
    """The plan that carries a wave out. proposal: id of the one that was confirmed, if any."""
    confirmed = {} if proposal is None else {"proposal": proposal}
    return CreatePlan(
        topology=case.name,
        expected=deployment.generation,
        generation=deployment.generation + 1,
        wave=case.wave + 1,
        kind=_kind(wave),
        method=wave.method,
        rollback=wave.rollback,
        buffering=wave.buffering,
        checkpoint=wave.checkpoint,
        assignment=dict(wave.assignment),
        restore=wave.restore,
        reason=wave.reason,
        explanation={**wave.explanation, **confirmed},
    )


def _kind(wave: Wave) -> Literal["recover", "restore", "move"]:
    if wave.method == MOVE:
        return "move"
    return "recover" if wave.restore or wave.parked else "restore"


def state_of_incident(
    cases: Collection[TopologyCase],
    *,
    caught_up: Mapping[str, int],
    requests: Collection[Request],
    losses: Counter[str],
    queries_awaited: int = 0,
) -> State:
    """That of the least advanced case; without cases, the wait for spare capacity.

    caught_up: topology -> generation of the plan that is known to work live. queries_awaited: how many failed
    queries are not available yet and are waited for.
    """
    active = [case for case in cases if case.phase not in ENDED_PHASES]
    if active:
        return min((_state_of(case, caught_up) for case in active), key=list(State).index)
    if not cases and any(losses[request.lost_node] > 0 for request in expected(requests)):
        return State.ACQUIRING
    return State.CATCHING_UP if queries_awaited else State.CLOSED


def _state_of(case: TopologyCase, caught_up: Mapping[str, int]) -> State:
    """What is still failed waits for a node: behind a wave that has caught up, or for all at once."""
    works = caught_up.get(case.name) == case.generation or not case.restore
    if case.phase is Phase.REPLAYING and case.failed and (works or case.method != INCREMENTAL):
        return State.ACQUIRING
    return _STATE_OF_PHASE[case.phase]
