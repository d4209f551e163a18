"""A job that waits for executors which are gone is ended at once.

Spark would repeat what ran there: wait for the lost host as long as locality asks for, at every stage, and
compute shuffle files again on nodes that then find themselves misplaced. Ten seconds and more in which no
query gets output, for a job that the driver has to run again anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

log = structlog.get_logger()
INTERVAL = 0.1


class JobCancelledError(RuntimeError):
    """The job was ended early; it can be run again on the executors that are left."""


class JobWatch:
    """Looks several times a second, in a thread of its own, whether the job under way still makes sense.
    `cancel()` ends it, so that the thread that waits for it gets an exception."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._obsolete: Callable[[], bool] | None = None
        self._cancelled = False
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def over(self, obsolete: Callable[[], bool]) -> Iterator[None]:
        """Watch the job that runs inside. Raises `JobCancelledError` if that failed because it was ended."""
        with self._lock:
            self._obsolete, self._cancelled = obsolete, False
        self._wake.set()
        try:
            yield
        except Exception as error:
            with self._lock:
                cancelled = self._cancelled
            if cancelled:
                raise JobCancelledError("the job was of no use any more") from error
            raise
        finally:
            with self._lock:
                self._obsolete = None
            self._wake.clear()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._thread.join(2)

    def _run(self) -> None:
        pause = threading.Event()
        while not self._closed:
            self._wake.wait()
            pause.wait(INTERVAL)
            with self._lock:
                obsolete = self._obsolete
            if obsolete is None:
                continue
            try:
                if not obsolete():
                    continue
                with self._lock:
                    if self._obsolete is not obsolete:
                        continue  # it ended in the meantime
                    if not self._cancelled:
                        log.info("job ended early")
                    self._cancelled = True
                    # Again and again, since Spark may not have begun it when it is first told. Under the
                    # lock, so that it is not the next job that is ended.
                    self._cancel()
            except Exception as error:  # the job goes on as it would without a watch
                log.warning("job not ended early", error=str(error).splitlines()[:1])
