"""Shadows: where they are, how far, and what they take over."""

from __future__ import annotations

import pytest

from domain.execution.job import PartitionReport
from domain.execution.progress import Position, ProgressTracker
from domain.execution.shadows import homes_now, under
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.copies import is_shadow, partition_of, shadow_of, with_copies
from tests.unit.domain.execution.test_progress import chain

HOMES = dict.fromkeys(chain().partitions, "n1")


@pytest.fixture
def run() -> ProgressTracker:
    """All partitions on n1 at epoch 20; A[0] has a shadow on n2 that has caught up."""
    tracker = ProgressTracker(chain(), Position(20, checkpoint=10), HOMES)
    tracker.set_absent(())
    assert tracker.shadows.place({"A[0]": "n2"}, tracker.homes, tracker.checkpoint)
    tracker.take(None, {"A~[0]": 20}, told=tracker.told(), head=20, restored={"A~[0]": 10})
    return tracker


def graph_partitions(graph: Topology) -> list[str]:
    return [name for name in graph.partitions if is_shadow(name)]


def test_the_view_has_shadows_with_the_same_inputs_and_nothing_below() -> None:
    graph = with_copies(chain(), frozenset({"A"}), frozenset())
    assert graph_partitions(graph) == ["A~[0]"]
    assert graph.upstream("A~[0]") == graph.upstream("A[0]") == chain().upstream("A[0]")
    assert graph.downstream("A~[0]") == []
    assert graph.queries == chain().queries
    assert with_copies(chain(), frozenset(), frozenset()).spec == chain().spec
    assert (shadow_of("A[0]"), partition_of("A~[0]"), partition_of("A[0]")) == ("A~[0]", "A[0]", "A[0]")


def test_a_new_shadow_starts_from_the_checkpoint_and_replays(run: ProgressTracker) -> None:
    run.shadows.place({"A[0]": "n3"}, run.homes, run.checkpoint)
    assert run.shadows.restore == {"A~[0]": 10}
    lane = run.replay(held=(), epochs=4)
    assert lane is not None
    assert (lane.first, lane.last, lane.starts) == (11, 14, {"S[0]": 10, "A~[0]": 10})
    assert run.of_shadows(lane)


def test_a_shadow_runs_with_its_partition(run: ProgressTracker) -> None:
    lane = run.present(head=21, held=(), limit=8, join=1)
    assert lane is not None
    assert lane.starts["A~[0]"] == lane.starts["A[0]"] == 20
    assert not run.of_shadows(lane)


def test_shadows_do_not_count_for_what_is_committed(run: ProgressTracker) -> None:
    run.shadows.place({"A[0]": "n3"}, run.homes, run.checkpoint)
    assert run.committed == 20
    assert run.whole(None, 20)
    assert run.behind(20) == []


def test_none_is_beside_its_partition(run: ProgressTracker) -> None:
    run.shadows.place({"A[0]": "n1", "V[0]": "n2", "X[9]": "n2"}, run.homes, run.checkpoint)
    assert run.shadows.homes == {"V~[0]": "n2"}


def test_it_takes_over_with_what_it_has(run: ProgressTracker) -> None:
    run.set_absent(HOMES)
    assert run.take_over() == {"A[0]": "n2"}
    assert (run.progress["A[0]"], run.homes["A[0]"], run.acting) == (20, "n2", {"A[0]": "n2"})
    assert run.shadows.homes == {}
    assert run.position.acting == {"A[0]": "n2"}
    again = ProgressTracker(chain(), run.position, run.homes)
    assert (again.acting, again.homes) == (run.acting, run.homes)


def test_one_that_is_behind_takes_over_with_its_own_progress(run: ProgressTracker) -> None:
    run.shadows.progress["A~[0]"] = 17
    run.set_absent(HOMES)
    run.take_over()
    assert run.progress["A[0]"] == 17


def test_it_never_counts_as_further_than_its_partition(run: ProgressTracker) -> None:
    run.take(None, {"A~[0]": 25}, told=run.told(), head=25, restored={})
    assert run.shadows.progress["A~[0]"] == 20


def test_one_without_state_does_not_take_over(run: ProgressTracker) -> None:
    run.shadows.lost({"A~[0]": PartitionReport(epoch=20, missing=True)}, 10)
    run.set_absent(HOMES)
    assert run.take_over() == {}


def test_what_is_behind_a_new_checkpoint_begins_there(run: ProgressTracker) -> None:
    run.shadows.progress["A~[0]"] = 15
    run.completed(20)
    assert (run.shadows.progress, run.shadows.restore) == ({"A~[0]": 20}, {"A~[0]": 20})
    run.take(None, {"A~[0]": 18}, told=run.told(), head=20, restored={})
    assert run.shadows.restore == {"A~[0]": 20}, "a job that began before it proves nothing"


def test_a_plan_that_does_not_know_of_a_takeover_leaves_it_in_force() -> None:
    plan = Plan(generation=2, kind="recover", assignment={"A[0]": "n3"}, restore=["A[0]", "V[0]"])
    meant = under(plan, {"A[0]": "n2"})
    assert (meant.assignment, meant.restore) == ({"A[0]": "n2"}, ["V[0]"])
    aware = Plan(generation=2, kind="recover", assignment={"A[0]": "n3"}, acting={"A[0]": "n2"})
    assert under(aware, {"A[0]": "n2"}) is aware


def test_a_later_takeover_on_the_same_node_is_not_the_one_that_a_plan_knew_of() -> None:
    plan = Plan(generation=2, kind="recover", assignment={"A[0]": "n3"}, acting={"A[0]": "n2"})
    assert homes_now(plan, {"A[0]": "n2"}, 1) == {"A[0]": "n3"}, "the driver has not applied the plan"
    assert homes_now(plan, {"A[0]": "n2"}, 2) == {"A[0]": "n2"}
    assert homes_now(plan, {"A[0]": "n4"}, 1) == {"A[0]": "n4"}


def test_when_its_node_is_lost_too_the_plan_decides_again(run: ProgressTracker) -> None:
    run.set_absent(HOMES)
    run.take_over()
    run.set_absent([])
    run.set_absent(["A[0]"])
    plan = Plan(generation=2, kind="recover", assignment={**HOMES, "A[0]": "n3"})
    assert run.give_back(plan, ready=()) == []
    assert run.give_back(plan, ready={"n3"}) == ["A[0]"]
    assert (run.homes["A[0]"], run.restore["A[0]"], run.acting) == ("n3", 10, {})
