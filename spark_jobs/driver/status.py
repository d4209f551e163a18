"""What the driver says of itself: its znode, which is the truth, and telemetry, which is quick."""

from __future__ import annotations

import os
from collections.abc import Callable

import structlog

from domain.messages import (
    DriverState,
    DriverStatus,
    NodeKeys,
    ProblemReport,
    ShadowStatus,
    Telemetry,
    TentativeStatus,
)
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

    def enter(
        self,
        state: DriverState,
        *,
        generation: int,
        log: EpochLog,
        checkpoint: int,
        absent: list[str],
        behind: list[str],
        refused: int,
        restorable: list[int],
        load: float,
        slow: list[str],
        catch_up: float | None,
        not_gaining: float,
        error: str,
        acting: dict[str, str],
        shadows: dict[str, ShadowStatus],
        tentative: dict[str, TentativeStatus],
        keys: dict[str, NodeKeys],
    ) -> DriverState:
        """Be in a state; publishes it if that, what is absent, behind or slow, a refused plan, a takeover or
        which queries are tentative is news. What became of keys is told every two seconds, if it is other."""
        said = (state, generation, absent, behind, refused, slow, acting, tentative.keys())
        changed, now = said != self._said, self._clock()
        entered, self.state = state != self.state, state
        if not changed and now - self._published_at < STATUS_INTERVAL:
            return state
        self._published_at, self._said = now, said
        status = DriverStatus(
            topology=self.topology,
            pid=os.getpid(),
            session=self._coordination.session,
            life=log.life,
            generation=generation,
            state=state,
            head=log.head,
            committed=log.committed,
            checkpoint=checkpoint,
            absent=absent,
            behind=behind,
            refused=refused,
            restorable=restorable,
            load=round(load, 3),
            slow=slow,
            catch_up=None if catch_up is None else round(catch_up, 1),
            not_gaining=round(not_gaining, 1),
            error=error,
            acting=acting,
            shadows=shadows,
            tentative=tentative,
            keys=keys,
            at=now,
        )
        self._coordination.publish(status)
        if changed or keys != self._keys:
            self._keys = keys
            self._send(status)
        if entered:
            _log_state(status)
        return state

    def problem(self, where: str, what: str, hint: str, row: str = "") -> None:
        self._send(ProblemReport(topology=self.topology, where=where, what=what, hint=hint, row=row))


def _log_state(status: DriverStatus) -> None:
    log.info("state", state=status.state, head=status.head, committed=status.committed)
