"""Which plan the driver should go over to, and when; which one it cannot. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from domain.execution.instructions import TellProblem, TurnBegun
from domain.messages import Plan

# How long to wait for the executors of a plan before running without those that are missing, in seconds.
START_PATIENCE = 45.0
PLAN_PATIENCE = 60.0
# How long a plan that could be adopted may wait for a moment between two epochs.
CONVENIENCE = 3.0

NONE_KEPT = (
    "No checkpoint can be restored. Bring back the topology's epoch log and checkpoints from a backup, or "
    "undeploy it and deploy it again to start from its first tuple."
)


def deployed_since(plan: Plan, generation: int) -> bool:
    """Whether the plan belongs to a later deployment than the run that applied `generation` last (0: none
    yet). Such a run has nothing that the plan could start from."""
    return plan.deployment > generation > 0


def refusal(plan: Plan, checkpoint: int, restorable: Sequence[int]) -> TellProblem:
    """What operators are told of a plan whose checkpoint is gone; those in `restorable` are not."""
    what = f"cannot be applied: checkpoint {checkpoint}, which it starts from, is not kept any more"
    hint = "An open incident plans again by itself. If there is none, recover the topology now"
    kept = ", ".join(str(one) for one in restorable if one)
    hint = f"{hint}, or restore a checkpoint that is kept: {kept}." if kept else f"{hint}."
    return TellProblem(f"plan {plan.generation}", what, hint if restorable else NONE_KEPT)


@dataclass(slots=True)
class PlanAdoption:
    """Waits until the nodes of the newest plan can work, and for a moment at which no query is delayed.

    A plan does not wait for a node whose partitions run nowhere: the others go over to it at once, and these
    begin when their node can work.

    waiting_since: when the plan that is waited for was first seen.
    """

    waiting_since: float
    _waited_for: int = 0
    _ready_since: float = 0.0

    def due(
        self,
        news: TurnBegun,
        current: Plan | None,
        *,
        absent: Collection[str],
        hurried: bool,
        next_due: float,
    ) -> Plan | None:
        """The plan to adopt now, if there is one newer than `current`. absent: partitions that do not run.
        hurried: queries give output in real time, so that pinning tasks should fit before the next epoch,
        which is due at `next_due`."""
        plan = news.plan
        if plan is None or (current is not None and plan.generation <= current.generation):
            return None
        if self._waited_for != plan.generation:
            self._waited_for, self.waiting_since = plan.generation, news.at
        if not self._nodes_ready(plan, news, current, absent):
            return None
        if current is not None and hurried and not self._convenient(news, next_due):
            return None
        return plan

    def adopted(self) -> None:
        self._ready_since = 0.0

    def _nodes_ready(
        self, plan: Plan, news: TurnBegun, current: Plan | None, absent: Collection[str]
    ) -> bool:
        """All nodes of the plan can work; or nothing runs of what the others are to run; or enough patience
        went by for those that can."""
        missing = set(plan.assignment.values()).difference(news.ready)
        if not missing or not news.ready:
            return bool(news.ready)
        patience = START_PATIENCE if current is None else PLAN_PATIENCE
        if news.at - self.waiting_since > patience:
            return True
        # What is put back as a whole begins as a whole.
        gradual = current is not None and not plan.rollback and plan.kind != "restore"
        return gradual and all(p in absent for p, node in plan.assignment.items() if node in missing)

    def _convenient(self, news: TurnBegun, next_due: float) -> bool:
        """Whether tokens can be placed before the next epoch is due, so that no query is delayed by a plan
        that does not concern it. After a while it is done anyway, and at once where the epoch has waited for
        longer than that takes: queries are late then, and the plan may be what makes them quicker."""
        waited = news.at - self._ready_since if self._ready_since else 0.0
        self._ready_since = self._ready_since or news.at
        left = next_due - news.at
        return abs(left) > news.pin_seconds or waited > CONVENIENCE
