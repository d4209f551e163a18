"""Room for the replay: a wave that only just fits the present never works off what was missed.

Between its checkpoint and the moment it runs again, a restored partition has missed B seconds of input. To
replay them takes rho times the CPU of working through them in the present, because many epochs share a job.
If it is to have caught up T seconds later, its node must have room for

    cost * (1 + rho * B / T)

within its whole capacity until then. With rho = 0.5, T = 20 s and B = 24 s (a checkpoint every 10 s, and the
time until the plan is applied) that is 1.6 times the cost. It is the same for every backlog, because a plan
that waits for a confirmation must not change with every second. When a wave has caught up and its queries
are available, its reserve is free for the next one: a replay that began before would keep them from becoming
available, and all waves would be late. By default there is none (docs/decisions/0023).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from domain.recovery.incident import Phase, TopologyCase
from domain.recovery.method import Situation

PATIENCE = 45.0
"""Seconds after which a wave that has not caught up keeps no room any more from the others."""


def replaying(
    case: TopologyCase,
    *,
    caught_up: Mapping[str, int],
    settled: bool,
    now: float,
    back: Collection[str],
) -> frozenset[str]:
    """Partitions of a case that are being restored, have missed epochs to replay, or have just caught up.
    caught_up: topology -> generation of the plan that is known to work live. settled: every query that has
    what it needs is available. back: what its last plan restores."""
    under_way = case.unapplied or case.phase is Phase.REPLAYING
    if not under_way or (settled and caught_up.get(case.name) == case.generation):
        return frozenset()
    if case.applied_at is not None and now - case.applied_at > PATIENCE:
        return frozenset()
    return frozenset(back)


def reserves(cases: Collection[TopologyCase], situation: Situation) -> tuple[float, ...]:
    """How many times its cost a partition of the next wave is planned with, the best first. What fits only
    without a reserve is restored all the same, unless there will be more room soon.

    Where each wave puts everything back, there should be few of them.
    """
    full = max(1.0, situation.replay_reserve * situation.max_utilisation)
    replays = all(situation.deployments[case.name].topology.replays for case in cases)
    if full == 1.0 or not replays:
        return (1.0,)
    return (full,) if situation.busy else (full, (1.0 + full) / 2, 1.0)


def with_reserve(
    situation: Situation, down: Mapping[str, Collection[str]], reserve: Mapping[str, float]
) -> Situation:
    """The same situation, with costs that leave room for the replay of what is down, and of what replays
    already. A replay ends, so it may use what `max_utilisation` keeps free. reserve: by topology."""
    full = max(1.0, situation.replay_reserve * situation.max_utilisation)
    costs = dict(situation.costs)
    for name in costs.keys() & (down.keys() | situation.replaying.keys()):
        late = dict.fromkeys(down.get(name, ()), reserve.get(name, 1.0))
        late |= dict.fromkeys(situation.replaying.get(name, ()), full)
        costs[name] = {p: cost * late.get(p, 1.0) for p, cost in costs[name].items()}
    return replace(situation, costs=costs)
