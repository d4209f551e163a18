"""Jobs that cannot succeed any more are ended; other jobs are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from spark_jobs.driver.watch import JobCancelledError, JobWatch


class Job:
    """Waits until it is cancelled, at most ten seconds."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1
        self.ended.set()

    def run(self) -> None:
        if self.ended.wait(10):
            raise RuntimeError("Job 7 cancelled")


@pytest.fixture
def job() -> Job:
    return Job()


@pytest.fixture
def watch(job: Job) -> Iterator[JobWatch]:
    watch = JobWatch(job.cancel)
    yield watch
    watch.close()


def test_an_obsolete_job_is_ended(job: Job, watch: JobWatch) -> None:
    lost = threading.Event()
    threading.Timer(0.3, lost.set).start()
    with pytest.raises(JobCancelledError), watch.over(lost.is_set):
        job.run()
    assert job.cancelled == 1


def test_an_error_of_the_job_stays_what_it_is(job: Job, watch: JobWatch) -> None:
    with pytest.raises(ValueError, match="no such table"), watch.over(lambda: False):
        raise ValueError("no such table")
    assert job.cancelled == 0


def test_between_jobs_spark_is_not_asked(job: Job, watch: JobWatch) -> None:
    asked = 0

    def obsolete() -> bool:
        nonlocal asked
        asked += 1
        return False

    with watch.over(obsolete):
        job.ended.wait(0.3)
    during = asked
    job.ended.wait(0.3)
    assert during >= 1
    assert asked == during


def test_a_watch_that_cannot_look_lets_the_job_run(job: Job, watch: JobWatch) -> None:
    def broken() -> bool:
        raise ConnectionError("the JVM does not answer")

    with watch.over(broken):
        job.ended.wait(0.3)
    assert job.cancelled == 0
