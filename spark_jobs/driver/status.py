"""What the driver says of itself: its znode, which is the truth, and telemetry, which is quick."""

from __future__ import annotations

import os
from collections.abc import Callable

import structlog

from domain.execution.instructions import Publish
from domain.messages import DriverState, DriverStatus, NodeKeys, ProblemReport, Telemetry
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.topology_channel import TopologyChannel

log = structlog.get_logger()
STATUS_INTERVAL = 2.0


class Status:
    """Publishes each change at once, and that nothing changed every two seconds."""

    def __init__(
        self,
        topology: str,
        coordination: TopologyChannel,
        send: Callable[[Telemetry], None],
        clock: Callable[[], float],
    ) -> None:
        self.topology = topology
        self.state: DriverState = "starting"
        self._coordination = coordination
        self._send = send
        self._clock = clock
        self._published_at = 0.0
        self._said: tuple[object, ...] = ()
        self._keys: dict[str, NodeKeys] = {}

    def enter(self, told: Publish, *, log: EpochLog, keys: dict[str, NodeKeys]) -> None:
        """Be in a state; publishes it if that, what is absent, behind or slow, a refused plan, a takeover or
        which queries are tentative is news. What became of keys is told every two seconds, if it is other."""
        said = (
            *(told.state, told.generation, told.absent, told.behind, told.refused),
            *(told.slow, told.acting, told.tentative.keys()),
        )
        changed, now = said != self._said, self._clock()
        entered, self.state = told.state != self.state, told.state
        if not changed and now - self._published_at < STATUS_INTERVAL:
            return
        self._published_at, self._said = now, said
        status = DriverStatus(
            topology=self.topology,
            pid=os.getpid(),
            session=self._coordination.session,
            life=log.life,
            generation=told.generation,
            state=told.state,
            head=log.head,
            committed=log.committed,
            checkpoint=told.checkpoint,
            absent=told.absent,
            behind=told.behind,
            refused=told.refused,
            restorable=told.restorable,
            load=round(told.load, 3),
            slow=told.slow,
            catch_up=None if told.catch_up is None else round(told.catch_up, 1),
            not_gaining=round(told.not_gaining, 1),
            error=told.error,
            acting=told.acting,
            shadows=told.shadows,
            tentative=told.tentative,
            keys=keys,
            at=now,
        )
        self._coordination.publish(status)
        if changed or keys != self._keys:
            self._keys = keys
            self._send(status)
        if entered:
            _log_state(status)

    def problem(self, where: str, what: str, hint: str, row: str = "") -> None:
        self._send(ProblemReport(topology=self.topology, where=where, what=what, hint=hint, row=row))


def _log_state(status: DriverStatus) -> None:
    log.info("state", state=status.state, head=status.head, committed=status.committed)
