"""Which nodes are slow: those that stand out, and only after several jobs."""

from __future__ import annotations

import pytest

from domain.execution.job import TaskReport
from domain.execution.slowness import JOBS, Slowness


def report(node: str, seconds: float, cpu: float) -> TaskReport:
    return TaskReport(slot=0, level=0, node=node, working=seconds, cpu_seconds=cpu)


Works = dict[str, tuple[float, float]]


def observed(jobs: int, nodes: Works, slowness: Slowness | None = None) -> Slowness:
    """Each job has one task on each node: seconds that it took, of which so many of processor time."""
    slowness = slowness or Slowness()
    for _ in range(jobs):
        slowness.observe([report(node, *work) for node, work in nodes.items()])
    return slowness


def test_a_node_that_stands_out_in_several_jobs_is_slow() -> None:
    works = {"a": (0.1, 0.09), "b": (0.12, 0.1), "c": (1.0, 0.1)}
    assert observed(JOBS - 1, works).nodes == set()
    assert observed(JOBS, works).nodes == {"c"}


def test_a_single_good_job_begins_the_count_again() -> None:
    slow, well = {"a": (0.1, 0.1), "c": (1.0, 0.1)}, {"a": (0.1, 0.1), "c": (0.1, 0.1)}
    slowness = observed(JOBS - 1, slow)
    observed(1, well, slowness)
    assert observed(JOBS - 1, slow, slowness).nodes == set()


@pytest.mark.parametrize(
    ("about", "works"),
    [
        ("more to do", {"a": (0.1, 0.1), "b": (0.1, 0.1), "c": (2.0, 1.9)}),
        ("all have little processor time", {"a": (1.0, 0.1), "b": (1.2, 0.1), "c": (1.4, 0.1)}),
        ("stretched but short", {"a": (0.5, 0.4), "b": (0.5, 0.4), "c": (0.6, 0.05)}),
        ("next to nothing to do", {"a": (0.001, 0.001), "b": (0.001, 0.001), "c": (0.05, 0.001)}),
        ("alone", {"c": (1.0, 0.1)}),
    ],
)
def test_what_is_not_slowness(about: str, works: Works) -> None:
    assert observed(3 * JOBS, works).nodes == set(), about


def test_a_slow_node_is_well_again_after_several_jobs() -> None:
    slowness = observed(JOBS, {"a": (0.1, 0.1), "b": (0.1, 0.1), "c": (1.0, 0.1)})
    for _ in range(JOBS - 1):
        observed(1, {"a": (0.1, 0.1), "b": (0.1, 0.1)}, slowness)
        observed(1, {"c": (0.11, 0.1)}, slowness)
    assert slowness.nodes == {"c"}
    observed(1, {"c": (0.11, 0.1)}, slowness)
    assert slowness.nodes == set()


def test_a_node_that_has_nothing_to_do_any_more_is_forgotten() -> None:
    slowness = observed(JOBS, {"a": (0.1, 0.1), "b": (0.1, 0.1), "c": (1.0, 0.1)})
    slowness.forget(["a", "b"])
    assert slowness.nodes == set()


def test_a_task_that_ran_elsewhere_says_nothing() -> None:
    slowness = Slowness()
    for _ in range(JOBS):
        wrong = TaskReport(slot=0, level=0, node="c", misplaced=True, working=1.0, cpu_seconds=0.1)
        slowness.observe([report("a", 0.1, 0.1), wrong])
    assert slowness.nodes == set()
