"""Telling the agents which Spark application to start executors for, and which executors it has no longer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Session
from domain.messages import SparkApplication
from spark_jobs.driver.cluster import Executor

log = structlog.get_logger()
ENDED_KEPT = 5_000
"""Executors that went last. One that runs on is told of this at once, or when its node is back."""


class ApplicationReport:
    """Keeps the znode of a topology's application at what `update` was told last.

    application: this driver's. life: its fencing number; what a driver with a lower one wrote is replaced.
    """

    def __init__(
        self, topology: str, session: Session, application: SparkApplication, life: Callable[[], int]
    ) -> None:
        self._path = Paths.application(topology)
        self._session = session
        self._application = application
        self._life = life
        self._had: frozenset[Executor] = frozenset()
        self._ended: list[str] = []
        self._written: tuple[str, SparkApplication] | None = None

    def update(self, executors: Iterable[Executor]) -> None:
        """executors: those that the driver has. Raises `CoordinationUnavailableError`; then call it again."""
        present = frozenset(executors)
        gone = sorted(executor.id for executor in self._had - present)
        self._ended = [*self._ended, *gone][-ENDED_KEPT:]
        self._had = present
        said = msgspec.structs.replace(self._application, life=self._life(), ended=self._ended)
        session = self._session.session
        if self._written == (session, said):
            return
        mine = said.pid, said.life
        if self._session.claim(
            self._path, said, replaceable=lambda other: other.pid == mine[0] or other.life <= mine[1]
        ):
            self._written = (session, said)

    def withdraw(self) -> None:
        """From now on no agent starts an executor; to be called before the application ends."""
        try:
            self._session.release(self._path)
        except CoordinationUnavailableError as error:
            log.warning("application not withdrawn", error=str(error))
