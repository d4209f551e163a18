"""How a topology wants to be recovered, and which method that means in an incident."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from domain.planning import PLANNERS

BLOCKING, INCREMENTAL = "blocking", "incremental"
MOVE = "move"
"""Not chosen by a policy: what still runs and is to change its node."""

MethodChoice = Literal["auto", "blocking", "incremental"]
Rollback = Literal["ancestors", "global"]
Approval = Literal["automatic", "approve"]
Rebalancing = Literal["automatic", "manual"]
Overload = Literal["automatic", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """method: `auto` decides by the failure (`method_choose`).
    planner: chooses what returns first. rollback: `ancestors` undoes nothing of what runs, `global`
    is the paper's. approval: `approve` carries out only plans that an operator has confirmed.
    rebalancing: `automatic` moves partitions that run to nodes with more room, without being asked.
    overload: `automatic` parks queries where there is more to do than the nodes can do.
    correlation_threshold: so many nodes lost since the last global checkpoint, or each within
    correlation_window seconds of the one before, are a correlated failure.

    Raises ValueError for a planner or a number that cannot be.
    """

    method: MethodChoice = "auto"
    planner: str = "best_density"
    rollback: Rollback = "ancestors"
    approval: Approval = "automatic"
    rebalancing: Rebalancing = "automatic"
    overload: Overload = "automatic"
    correlation_threshold: int = 2
    correlation_window: float = 10.0

    def __post_init__(self) -> None:
        if self.planner not in PLANNERS:
            raise ValueError(f"there is no planner {self.planner!r}; known: {', '.join(sorted(PLANNERS))}")
        if self.correlation_threshold < 1:
            raise ValueError(f"a correlation threshold is at least 1, not {self.correlation_threshold}")
        if not self.correlation_window >= 0:
            raise ValueError(f"a correlation window is at least 0 s, not {self.correlation_window}")


def largest_burst(moments: Iterable[float], window: float) -> int:
    """The most losses in a row of which each is at most `window` seconds after the one before."""
    best = run = 0
    before = None
    for moment in sorted(moments):
        run = run + 1 if before is not None and moment - before <= window else 1
        best, before = max(best, run), moment
    return best


def lost_together(moments: Collection[float], *, checkpoint_at: float, window: float) -> int:
    """How many losses count as one failure: those since the last global checkpoint (incremental-recovery,
    section 4.2.1), and those of a burst in which one follows the other within `window` seconds.

    moments: when nodes were lost. checkpoint_at: when the newest global checkpoint was complete.
    """
    return max(sum(moment > checkpoint_at for moment in moments), largest_burst(moments, window))


def method_choose(
    policy: RecoveryPolicy,
    *,
    so_far: str,
    down: Collection[str],
    moves: bool,
    together: int,
    disturbs: bool,
    room: Callable[[], bool],
) -> tuple[str, str]:
    """The method for one topology, and why.

    so_far: method of its last plan in this incident. down: partitions that do not run at all; a topology of
    which nothing is down is only to be moved or put back. moves: whether it is only to be moved.
    together: see `lost_together`. disturbs: whether a wave puts back what runs. room: whether all that is
    down fits on the nodes there are."""
    if moves:
        return MOVE, "what is to change its node still runs"
    if so_far == INCREMENTAL:
        return INCREMENTAL, "this incident has an incremental wave of it already"
    if not down:
        return BLOCKING, "nothing of it is down"
    if policy.method != "auto":
        return policy.method, "its policy says so"
    if not disturbs:
        return INCREMENTAL, "its waves do not touch what runs, so there is nothing to gain by waiting"
    limits = f"{policy.correlation_threshold} lost together are a correlated failure"
    if together >= policy.correlation_threshold:
        return INCREMENTAL, f"{together} nodes were lost together ({limits})"
    if room():
        return INCREMENTAL, "all that is down fits on the present nodes"
    return BLOCKING, f"every wave would put back what runs, and the failure is not correlated ({limits})"
