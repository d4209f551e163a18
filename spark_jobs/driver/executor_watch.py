"""Telling the coordinator at once which nodes have an executor, and which have lost theirs.

Spark learns within tenths of a second that an executor's process has ended; the driver's own status says so
only when the job has been ended and tasks are pinned anew. An executor that its node has started again is
reported in the same way. What all this means for a node is not decided here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

import structlog

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Session
from domain.messages import ExecutorGone, ExecutorsSeen, NodeRegistration
from spark_jobs.driver.application_report import ApplicationReport
from spark_jobs.driver.cluster import Executor

log = structlog.get_logger()
INTERVAL = 0.1
AGAIN = 1.0
"""Seconds before what could not be written is tried again."""


class ExecutorReport:
    """Keeps the znode of a topology's executors at what `update` was told last."""

    def __init__(self, topology: str, session: Session) -> None:
        self._path = Paths.executors(topology)
        self._session = session
        self._had: set[str] = set()
        self._gone: dict[str, ExecutorGone] = {}
        self._written: tuple[str, ExecutorsSeen] | None = None

    def update(self, present: set[str], registered: frozenset[str], at: float) -> None:
        """present: nodes with an executor. Raises `CoordinationUnavailableError`; then call it again."""
        self._had |= present
        self._had &= registered | present
        missed = self._had - present
        self._gone = {node: one for node, one in self._gone.items() if node in missed}
        new = sorted(missed - self._gone.keys())
        if new:
            self._miss(new, at)
        self._write(ExecutorsSeen(pid=os.getpid(), present=sorted(present & registered), gone=self._gone))

    def _miss(self, nodes: list[str], at: float) -> None:
        found = self._session.get_many([(Paths.node(node), NodeRegistration) for node in nodes])
        for node, one in zip(nodes, found, strict=True):
            if one is None:  # its registration is gone, too, which is seen without us
                self._had.discard(node)
            else:
                self._gone[node] = ExecutorGone(session=one.owner or one.value.session, at=at)
        log.info("executors are gone", nodes=nodes)

    def _write(self, seen: ExecutorsSeen) -> None:
        session = self._session.session
        if self._written == (session, seen):
            return
        if self._session.claim(self._path, seen, replaceable=lambda other: other.pid == seen.pid):
            self._written = (session, seen)


class ExecutorWatch:
    """Looks several times a second, in a thread of its own, whether or not a job runs.

    executors: those that the driver has. addresses: of all nodes, by name. registered: names of nodes.
    """

    def __init__(
        self,
        report: ExecutorReport,
        application: ApplicationReport,
        *,
        executors: Callable[[], frozenset[Executor]],
        addresses: Callable[[], Mapping[str, str]],
        registered: Callable[[], frozenset[str]],
        clock: Callable[[], float],
    ) -> None:
        self._report = report
        self._application = application
        self._executors = executors
        self._addresses = addresses
        self._registered = registered
        self._clock = clock
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="executor-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(2)
        self._application.withdraw()

    def _run(self) -> None:
        pause = INTERVAL
        while not self._closed.wait(pause):
            try:
                executors = self._executors()
                self._application.update(executors)
                hosts = {executor.host for executor in executors}
                present = {node for node, host in dict(self._addresses()).items() if host in hosts}
                self._report.update(present, self._registered(), self._clock())
                pause = INTERVAL
            except CoordinationUnavailableError as error:
                log.warning("executors not told", error=str(error))
                pause = AGAIN
            except Exception as error:  # the JVM ends, or does not answer now
                log.warning("executors not looked at", error=str(error).splitlines()[:1])
                pause = AGAIN
