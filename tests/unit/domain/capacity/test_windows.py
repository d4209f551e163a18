"""Bringing together what agents count and what drivers report."""

from __future__ import annotations

import pytest

from domain.capacity import Work, WorkWindows

JOB = Work(tasks=5, operators=0.2, tuples=1000)


def second(windows: WorkWindows, number: int, work: Work = JOB) -> None:
    """The job of epoch `number`, which takes the second that begins at that number."""
    windows.reported(
        topology="t", first=number, last=number, started=number, ended=number + 1.0, work={"node-1": work}
    )


def counted(windows: WorkWindows, at: float, cpu_seconds: float) -> None:
    windows.read(topology="t", node="node-1", at=at, cpu_seconds=cpu_seconds)


def complete(windows: WorkWindows) -> list[tuple[str, Work, float]]:
    return list(windows.complete("t"))


def test_a_window_has_the_work_of_its_seconds() -> None:
    windows = WorkWindows()
    for number in range(1, 30):
        second(windows, number)
        counted(windows, number + 1.0, 0.5 * number)
    ((node, work, cores),) = complete(windows)
    assert node == "node-1"
    assert cores == pytest.approx(0.5)
    assert (work.tasks, work.operators, work.tuples) == pytest.approx((5.0, 0.2, 1000.0))
    assert complete(windows) == []


def test_a_job_across_the_end_of_a_window_counts_in_proportion() -> None:
    windows = WorkWindows()
    second(windows, 1)
    counted(windows, 2.0, 0.0)
    windows.reported(
        topology="t", first=2, last=2, started=2.0, ended=22.0, work={"node-1": Work(20, 4.0, 2000)}
    )
    counted(windows, 12.0, 3.0)
    ((_, work, cores),) = complete(windows)
    assert (work.tasks, work.operators, work.tuples) == pytest.approx((1.0, 0.2, 100.0))
    assert cores == pytest.approx(0.3)


def test_a_window_waits_until_a_later_job_is_reported() -> None:
    windows = WorkWindows()
    second(windows, 1)
    counted(windows, 2.0, 0.0)
    counted(windows, 13.0, 1.0)
    assert complete(windows) == []
    for number in range(2, 14):
        second(windows, number)
    assert len(complete(windows)) == 1


def test_a_window_with_a_missing_report_is_dropped() -> None:
    windows = WorkWindows()
    for number in (1, 2, 3, 5, *range(6, 15)):
        second(windows, number)
    counted(windows, 2.0, 0.0)
    counted(windows, 13.0, 1.0)
    assert complete(windows) == []
    counted(windows, 24.0, 2.0)
    for number in range(15, 26):
        second(windows, number)
    assert len(complete(windows)) == 1


def test_another_run_of_the_topology_begins_anew() -> None:
    windows = WorkWindows()
    for number in range(50, 56):
        second(windows, number)
    counted(windows, 52.0, 0.0)
    windows.reported(topology="t", first=1, last=1, started=60.0, ended=70.0, work={"node-1": JOB})
    counted(windows, 64.0, 1.0)
    assert complete(windows) == []


def test_an_agent_that_starts_again_counts_from_zero() -> None:
    windows = WorkWindows()
    for number in range(1, 40):
        second(windows, number)
    counted(windows, 2.0, 100.0)
    counted(windows, 8.0, 0.5)
    counted(windows, 20.0, 1.7)
    ((_, _, cores),) = complete(windows)
    assert cores == pytest.approx(0.1)


def test_nothing_is_learned_of_a_node_that_was_forgotten() -> None:
    windows = WorkWindows()
    second(windows, 1)
    counted(windows, 2.0, 0.0)
    windows.forget(node="node-1")
    for number in range(2, 40):
        second(windows, number)
    counted(windows, 13.0, 1.0)
    assert complete(windows) == []


def test_jobs_are_not_kept_for_ever() -> None:
    windows = WorkWindows()
    for number in range(1, 1000):
        second(windows, number)
        counted(windows, number + 1.0, 0.1 * number)
        complete(windows)
    assert len(windows._topologies["t"].jobs) < 40


def test_no_job_counts_twice_where_the_clock_was_put_back() -> None:
    windows, found = WorkWindows(), []
    for number in range(1, 30):
        windows.reported(
            topology="t", first=number, last=number, started=200.0 + number, ended=201.0 + number,
            work={"node-1": JOB},
        )  # fmt: skip
        counted(windows, 201.0 + number, 0.5 * number)
    for number in range(30, 300):
        second(windows, number)
        counted(windows, number + 1.0, 0.5 * number)
        found += complete(windows)
    assert found
    assert {round(work.tasks, 6) for _, work, _ in found} == {5.0}
