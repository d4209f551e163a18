"""Which plan the driver should go over to, and when."""

from __future__ import annotations

from collections.abc import Callable

from domain.execution.progress import Conductor
from domain.messages import Plan
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.intake import Intake
from spark_jobs.driver.placing import Placing
from spark_jobs.driver.status import Status
from spark_jobs.driver.topology_channel import TopologyChannel

# How long to wait for the executors of a plan before running without those that are missing, in seconds.
START_PATIENCE = 45.0
PLAN_PATIENCE = 60.0
# How long a plan that could be adopted may wait for a moment between two epochs.
CONVENIENCE = 3.0


class Adoption:
    """Waits until the nodes of the newest plan can work, and for a moment at which nobody is held up."""

    def __init__(
        self,
        *,
        coordination: TopologyChannel,
        conductor: Conductor,
        placing: Placing,
        intake: Intake,
        log: EpochLog,
        status: Status,
        clock: Callable[[], float],
    ) -> None:
        self._coordination = coordination
        self._conductor = conductor
        self._placing = placing
        self._intake = intake
        self._log = log
        self._status = status
        self._clock = clock
        self._waiting_since = clock()
        self._waited_for = 0
        self._refused = 0
        self._ready_since = 0.0

    def due(self, current: Plan | None) -> Plan | None:
        """The plan to adopt now, if there is one newer than `current`."""
        plan = self._coordination.plan
        if plan is None or (current is not None and plan.generation <= current.generation):
            return None
        if self._waited_for != plan.generation:
            self._waited_for, self._waiting_since = plan.generation, self._clock()
        if not (self._nodes_ready(plan, current) and self._convenient(current)):
            return None
        if plan.generation > self._log.generation and not self._log.holds(self._conductor.origin(plan)):
            self._refuse(plan)
            return None
        self._ready_since = 0.0
        return plan

    def _refuse(self, plan: Plan) -> None:
        if self._refused != plan.generation:
            self._refused = plan.generation
            self._status.problem(
                f"plan {plan.generation}",
                f"checkpoint {plan.checkpoint} is older than the epoch log, which begins after it",
                f"Restore checkpoint {self._conductor.checkpoint} or a later one instead.",
            )

    def _nodes_ready(self, plan: Plan, current: Plan | None) -> bool:
        """All nodes of the plan have an executor, or enough patience went by for those that have."""
        ready, wanted = self._placing.ready(plan)
        patience = START_PATIENCE if current is None else PLAN_PATIENCE
        return ready > 0 and (ready == wanted or self._clock() - self._waiting_since > patience)

    def _convenient(self, current: Plan | None) -> bool:
        """Whether tokens can be placed before the next epoch is due, so that nobody waits for a plan that is
        not for them; after a while it is done anyway."""
        unhurried = not self._intake.realtime or self._intake.finished
        if current is None or unhurried or not self._conductor.answering():
            return True
        slack = self._intake.due_at(self._log.head + 1) - self._clock()
        waited = self._clock() - self._ready_since if self._ready_since else 0.0
        self._ready_since = self._ready_since or self._clock()
        return slack > self._placing.pin_seconds or waited > CONVENIENCE
