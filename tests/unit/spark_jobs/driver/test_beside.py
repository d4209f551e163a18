"""A job beside those of the loop: its result is taken once, and it ends when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from spark_jobs.driver.beside import JobBeside
from spark_jobs.driver.watch import JobCancelledError


class Spark:
    """Runs a job until it is let go or cancelled, at most ten seconds. over: the driver was woken."""

    def __init__(self) -> None:
        self.free, self.over = threading.Event(), threading.Event()
        self.cancelled = False
        self.began: list[str] = []

    def begin(self) -> None:
        self.began.append(threading.current_thread().name)

    def cancel(self) -> None:
        self.cancelled = True
        self.free.set()

    def run(self) -> int:
        assert self.free.wait(10)
        if self.cancelled:
            raise RuntimeError("Job 7 cancelled")
        return 42


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def beside(spark: Spark) -> Iterator[JobBeside[int]]:
    beside: JobBeside[int] = JobBeside(begin=spark.begin, cancel=spark.cancel)
    yield beside
    beside.close()


def test_its_result_is_there_once(spark: Spark, beside: JobBeside[int]) -> None:
    assert (beside.running, beside.result()) == (False, None)
    beside.start(spark.run, lambda: False, over=spark.over.set)
    assert (beside.running, beside.result()) == (True, None)
    spark.free.set()
    assert spark.over.wait(10)
    assert (beside.running, beside.result()) == (True, 42)
    assert (beside.running, beside.result()) == (False, None)


def test_it_ends_when_it_is_told_to(spark: Spark, beside: JobBeside[int]) -> None:
    beside.start(spark.run, lambda: False, over=spark.over.set)
    beside.cancel()
    assert spark.over.wait(10)
    with pytest.raises(JobCancelledError):
        beside.result()
    assert not beside.running
    spark.free.clear()
    spark.cancelled = False
    beside.start(spark.run, lambda: False, over=spark.over.set)
    spark.free.set()
    spark.over.clear()
    beside.close()
    assert beside.result() == 42, "the next one was not told to end"
    assert len(set(spark.began)) == len(spark.began) == 1, "all run in one thread"


def test_it_ends_when_its_executors_are_gone(spark: Spark, beside: JobBeside[int]) -> None:
    beside.start(spark.run, lambda: True, over=spark.over.set)
    assert spark.over.wait(10)
    with pytest.raises(JobCancelledError):
        beside.result()


def test_an_error_of_the_job_stays_what_it_is(spark: Spark, beside: JobBeside[int]) -> None:
    def broken() -> int:
        raise ValueError("no such table")

    beside.start(broken, lambda: False, over=spark.over.set)
    assert spark.over.wait(10)
    with pytest.raises(ValueError, match="no such table"):
        beside.result()
