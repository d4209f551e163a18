"""A Spark job that runs beside those of the epoch loop, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from spark_jobs.driver.watch import JobWatch

Result = TypeVar("Result")


class JobBeside(Generic[Result]):
    """At most one at a time. begin: called once, in the thread that runs all of them; what Spark is told of a
    thread holds for its jobs. cancel: ends the job under way."""

    def __init__(self, *, begin: Callable[[], None], cancel: Callable[[], None]) -> None:
        self._watch = JobWatch(cancel)
        # One thread for the life of the driver: Spark keeps one of its own for each that ever called it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="beside", initializer=begin)
        self._told = threading.Event()
        self._job: Future[Result] | None = None
        self.took = 0.0
        """Seconds that the job ran which ended last."""

    @property
    def running(self) -> bool:
        """Whether a job was started whose result was not taken yet."""
        return self._job is not None

    def start(
        self, work: Callable[[], Result], obsolete: Callable[[], bool], *, over: Callable[[], None]
    ) -> None:
        """Do `work`; `over` is called, in another thread, when it has come to an end. `obsolete`: as for
        `JobWatch.over`."""
        assert self._job is None, "one at a time"  # noqa: S101 - a mistake in our own loop
        self._told.clear()
        self._job = self._thread.submit(self._run, work, obsolete)
        self._job.add_done_callback(lambda _: over())

    def _run(self, work: Callable[[], Result], obsolete: Callable[[], bool]) -> Result:
        started = time.monotonic()
        try:
            with self._watch.over(lambda: self._told.is_set() or obsolete()):
                return work()
        finally:
            self.took = time.monotonic() - started

    def cancel(self) -> None:
        """Have the job under way end soon, if there is one, with `JobCancelledError` unless it ends first."""
        self._told.set()

    def result(self) -> Result | None:
        """What the job has come to, once; None before that, or without a job. Raises what the job raised."""
        if self._job is None or not self._job.done():
            return None
        job, self._job = self._job, None
        return job.result()

    def close(self) -> None:
        """End the job under way, and wait for it for some seconds at most."""
        self.cancel()
        self._thread.shutdown(wait=False)
        if self._job is not None:
            wait([self._job], timeout=3.0)
        self._watch.close()
