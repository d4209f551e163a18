"""How plans, failures and finished jobs change the position of a run."""

from __future__ import annotations

from typing import Any

import pytest

from domain.execution.lanes import Lane
from domain.execution.progress import Position, ProgressTracker
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec


def chain(deterministic: bool = True) -> Topology:
    """S -> A -> V, and W beside V."""
    streams = {"S": (), "A": ("S",), "V": ("A",), "W": ("A",)}
    return Topology(
        TopologySpec(
            name="t",
            operators=tuple(
                OperatorSpec(
                    name=name,
                    kind="k",
                    inputs=tuple(InputSpec(source=source) for source in sources),
                    output=name in "VW",
                    deterministic=deterministic,
                )
                for name, sources in streams.items()
            ),
        )
    )


def plan(generation: int, **changes: Any) -> Plan:
    assignment = dict.fromkeys(chain().partitions, "n1")
    return Plan(generation=generation, **{"kind": "recover", "assignment": assignment, **changes})


@pytest.fixture
def run() -> ProgressTracker:
    """All partitions at epoch 20, checkpoint 10 complete, V lost."""
    tracker = ProgressTracker(chain(), Position(20, checkpoint=10), dict.fromkeys(chain().partitions, "n1"))
    tracker.set_absent([])
    tracker.take(None, {}, told=tracker.progress, head=20)
    tracker.set_absent({"V[0]"})
    return tracker


def test_only_what_a_plan_restores_goes_back(run: ProgressTracker) -> None:
    run.adopt(plan(2, restore=["V[0]"], checkpoint=10))
    run.set_absent([])
    assert run.position == Position(10, {"S[0]": 20, "A[0]": 20, "W[0]": 20}, {"V[0]": 10}, 10)
    assert run.behind(20) == ["V[0]"]


def test_a_partition_starts_at_the_newest_checkpoint_whatever_the_plan_says(run: ProgressTracker) -> None:
    run.adopt(plan(2, restore=["V[0]"], checkpoint=5))
    assert run.restore == {"V[0]": 10}


def test_a_moved_partition_starts_from_the_checkpoint_whatever_the_plan_says(run: ProgressTracker) -> None:
    """The plan that moved A may have been superseded before a driver applied it."""
    run.adopt(plan(3, restore=["V[0]"], assignment={**dict.fromkeys(chain().partitions, "n1"), "A[0]": "n2"}))
    assert run.restore == {"V[0]": 10, "A[0]": 10}


def test_the_first_plan_finds_nothing_on_the_nodes() -> None:
    tracker = ProgressTracker(chain(), Position())
    tracker.adopt(plan(1))
    assert tracker.restore == dict.fromkeys(chain().partitions, 0)


def test_with_rollback_all_partitions_go_back(run: ProgressTracker) -> None:
    run.adopt(plan(2, restore=["V[0]"], checkpoint=10, rollback=True))
    run.set_absent([])
    assert set(run.progress.values()) == {10}
    assert run.behind(20) == chain().partitions


def test_after_going_back_further_later_checkpoints_do_not_count(run: ProgressTracker) -> None:
    run.adopt(plan(2, checkpoint=3, rollback=True))
    run.adopt(plan(3, restore=["V[0]"], checkpoint=10))
    assert run.progress["V[0]"] == 3
    run.completed(12)
    run.adopt(plan(4, restore=["V[0]"], checkpoint=3))
    assert run.progress["V[0]"] == 12


def test_a_plan_applied_before_a_restart_is_not_applied_again(run: ProgressTracker) -> None:
    run.adopt(plan(2, restore=["V[0]"], checkpoint=10))
    again = ProgressTracker(chain(), run.position)
    again.adopt(plan(2, restore=["V[0]"], checkpoint=10), refresh=False)
    assert again.position == run.position


def test_state_that_is_not_there_is_restored_alone_or_with_all() -> None:
    for deterministic, expected in ((True, {"A[0]": 10}), (False, dict.fromkeys(chain().partitions, 10))):
        tracker = ProgressTracker(chain(deterministic), Position(20, checkpoint=10))
        tracker.lost_state({"A[0]"})
        assert tracker.restore == expected


def test_a_fork_would_contradict_what_was_sent_before_unless_operators_are_deterministic() -> None:
    for deterministic in (True, False):
        tracker = ProgressTracker(chain(deterministic), Position(10, {"S[0]": 20, "A[0]": 20}, checkpoint=5))
        tracker.set_absent(())
        assert tracker.contradicts(tracker.replay(held=(), epochs=20)) is not deterministic
        tracker.start_again()
        assert set(tracker.progress.values()) == {5}
        assert tracker.replay(held=(), epochs=20) is None
        assert not tracker.contradicts(tracker.present(head=20, held=(), limit=20, join=1))


def test_a_checkpoint_of_an_undone_history_is_not_gone_back_to(run: ProgressTracker) -> None:
    run.adopt(plan(2, rollback=True, checkpoint=3))
    run.adopt(plan(3, rollback=True, checkpoint=10))
    assert (run.checkpoint, set(run.progress.values())) == (3, {3})


def test_buffers_fill_for_partitions_that_do_not_follow(run: ProgressTracker) -> None:
    run.adopt(plan(2, assignment={p: "n1" for p in chain().partitions if p != "V[0]"}, buffering=True))
    lane = run.present(head=22, held=(), limit=8, join=1)
    run.take(lane, {"S[0]": 22, "A[0]": 22, "W[0]": 22}, told=dict(run.progress), head=22)
    assert run.coverage.covers(("A[0]", "V[0]"), 21, 22)
    assert not run.coverage.covers(("A[0]", "W[0]"), 21, 22)
    run.completed(22)
    assert not run.buffering
    assert not run.coverage.covers(("A[0]", "V[0]"), 21, 22)


def test_buffers_of_a_lost_node_do_not_count(run: ProgressTracker) -> None:
    run.coverage.add(("A[0]", "V[0]"), 11, 20, run.homes["A[0]"])
    run.set_absent({"A[0]", "V[0]"})
    assert not run.coverage.covers(("A[0]", "V[0]"), 11, 20)


def test_a_checkpoint_needs_all_partitions_at_the_same_epoch(run: ProgressTracker) -> None:
    def whole(join: int = 1) -> bool:
        return run.whole(run.present(head=21, held=(), limit=8, join=join), 21)

    assert not whole()
    run.set_absent([])
    assert whole()
    run.put_back(["V[0]"], 10)
    assert not whole()
    assert whole(join=10), "those behind join in this very job"


def test_what_a_replay_buffers_is_told_by_the_progress_its_tasks_knew(run: ProgressTracker) -> None:
    """V has gone back further since: they did not buffer for it what it had then."""
    run.adopt(plan(2, restore=["V[0]"], checkpoint=10, buffering=True))
    run.set_absent([])
    told = {**run.progress, "W[0]": 15}
    lane = Lane(11, 20, {"S[0]": 10, "A[0]": 10})
    run.take(lane, {}, told=told, head=22)
    assert run.coverage.covers(("A[0]", "W[0]"), 16, 20)
    assert not run.coverage.covers(("A[0]", "W[0]"), 15, 20)
    assert run.coverage.covers(("A[0]", "V[0]"), 11, 20)


def moved(run: ProgressTracker) -> None:
    """Outputs of A are buffered for V, then A moves to n2 with its state and goes on."""
    run.adopt(plan(2, restore=["V[0]"], checkpoint=10, buffering=True))
    run.set_absent([])
    run.coverage.add(("A[0]", "V[0]"), 11, 20, "n1")
    homes = {**run.homes, "A[0]": "n2"}
    run.adopt(plan(3, kind="move", assignment=homes), carried=["A[0]"])
    run.take(
        run.present(head=22, held=(), limit=8, join=1), {"S[0]": 22, "A[0]": 22, "W[0]": 22},
        told=dict(run.progress), head=22,
    )  # fmt: skip


def test_what_a_partition_buffered_before_it_moved_is_sent_from_its_old_node(run: ProgressTracker) -> None:
    moved(run)
    lane = run.replay(held=(), epochs=12)
    assert lane is not None
    assert set(lane.starts) == {"V[0]"}
    assert lane.serves == {"n1": {"A[0]": [(11, 20, ["V[0]"])]}, "n2": {"A[0]": [(21, 22, ["V[0]"])]}}


def test_what_is_buffered_on_a_node_without_partitions_does_not_count(run: ProgressTracker) -> None:
    """No task is pinned to it."""
    moved(run)
    homes = dict.fromkeys(run.homes, "n2")
    run.adopt(plan(4, kind="move", assignment=homes), carried=["S[0]", "W[0]", "V[0]"])
    lane = run.replay(held=(), epochs=12)
    assert lane is not None
    assert set(lane.starts) == {"S[0]", "A[0]", "V[0]"}


def test_what_is_buffered_on_a_lost_node_does_not_count_where_the_partition_has_moved(
    run: ProgressTracker,
) -> None:
    moved(run)
    run.set_absent(["S[0]", "W[0]"])
    assert not run.coverage.covers(("A[0]", "V[0]"), 20, 20)
    assert run.coverage.covers(("A[0]", "V[0]"), 21, 22)
