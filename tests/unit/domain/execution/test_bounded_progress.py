"""Where a topology with a bounded guarantee stands when partitions are lost, fail, move and return."""

from __future__ import annotations

from typing import Any

from domain.execution.bounded_progress import BoundedProgress
from domain.execution.lanes import Lane
from domain.execution.progress import Position
from domain.messages import Plan
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue


def topology() -> Topology:
    def stream(name: str, partitioning: str) -> list[dict[str, Any]]:
        return [{"from": name, "partitioning": partitioning}]

    return load_topology(
        {
            "name": "t",
            "guarantee": "bounded",
            "operators": [
                {
                    "name": "S",
                    "kind": "source",
                    "parallelism": 2,
                    "params": {"reader": "traffic", "stream": "locations"},
                },
                {
                    "name": "W",
                    "kind": "tumbling_window",
                    "parallelism": 2,
                    "params": {"size_s": 5},
                    "inputs": stream("S", "full"),
                    "output": True,
                },
            ],
        },
        catalogue,
    )


HOMES = {"S[0]": "a", "S[1]": "b", "W[0]": "a", "W[1]": "b"}


def running(epoch: int = 10) -> BoundedProgress:
    progress = BoundedProgress(topology(), Position(epoch), HOMES)
    progress.set_absent(())
    return progress


def lane(progress: BoundedProgress, head: int = 20, limit: int = 3, held: tuple[str, ...] = ()) -> Lane:
    found = progress.present(head=head, held=held, limit=limit, join=0)
    assert found is not None
    return found


def take(progress: BoundedProgress, found: Lane, **reached: int) -> None:
    names = {name.replace("_", "[") + "]": epoch for name, epoch in reached.items()}
    progress.take(found, names, told=progress.told(), head=20)


def test_all_that_run_go_on_together() -> None:
    progress = running()
    found = lane(progress)
    assert found.starts == dict.fromkeys(HOMES, 10)
    assert (found.first, found.last) == (11, 13)
    take(progress, found, S_0=13, S_1=13, W_0=13, W_1=13)
    assert progress.position == Position(13)
    assert progress.present(head=13, held=(), limit=3, join=0) is None


def test_what_is_lost_is_left_out_and_missed_epochs_are_not_replayed() -> None:
    progress = running()
    assert progress.set_absent({"S[0]", "W[0]"})
    found = lane(progress)
    assert found.starts == {"S[1]": 10, "W[1]": 10}
    take(progress, found, S_1=13, W_1=13)
    assert progress.committed == progress.front() == 13
    assert progress.behind(13) == []
    assert progress.replay(held=(), epochs=5) is None
    # The node returns with its disk: they go on with what they had.
    assert progress.restore == {"S[0]": 10, "W[0]": 10}
    assert progress.needed(0) == (13, [10])
    progress.set_absent(())
    found = lane(progress)
    assert found.starts == dict.fromkeys(HOMES, 13)
    take(progress, found, S_0=16, S_1=16, W_0=16, W_1=16)
    assert progress.restore == {}


def test_on_another_node_they_begin_without_state() -> None:
    progress = running()
    progress.set_absent({"S[0]", "W[0]"})
    take(progress, lane(progress), S_1=13, W_1=13)
    progress.adopt(Plan(generation=2, kind="recover", assignment=HOMES | {"S[0]": "c", "W[0]": "c"}))
    assert progress.restore == {"S[0]": 0, "W[0]": 0}
    assert progress.position.restore == {"S[0]": 0, "W[0]": 0}
    assert progress.committed == 13


def test_a_plan_never_takes_all_back() -> None:
    progress = running()
    progress.adopt(Plan(generation=2, kind="recover", assignment=HOMES, rollback=True, checkpoint=3))
    assert progress.committed == 10
    assert progress.restore == {}


def test_what_moves_takes_its_state_along() -> None:
    progress = running()
    plan = Plan(generation=2, kind="move", assignment=HOMES | {"W[0]": "b"})
    assert progress.moves(plan, placed=True) == {"W[0]": "a"}
    progress.adopt(plan, carried={"W[0]"})
    assert progress.restore == {}
    assert progress.homes["W[0]"] == "b"


def test_what_has_failed_takes_the_state_along_that_it_has() -> None:
    """As where the disk of its node is full, so that it is moved away."""
    progress = running()
    take(progress, lane(progress), S_0=13, S_1=13, W_0=11, W_1=13)
    plan = Plan(generation=2, kind="move", assignment=HOMES | {"W[0]": "b"})
    assert progress.moves(plan, placed=True) == {"W[0]": "a"}
    assert progress.held("W[0]") == 11
    progress.adopt(plan, carried={"W[0]"})
    assert progress.restore == {"W[0]": 11}


def test_what_has_no_state_begins_without_it_where_it_is_moved() -> None:
    progress = running()
    progress.lost_state({"W[0]"})
    plan = Plan(generation=2, kind="move", assignment=HOMES | {"W[0]": "b"})
    assert progress.moves(plan, placed=True) == {}
    progress.adopt(plan)
    assert progress.restore == {"W[0]": 0}


def test_one_that_fails_goes_on_with_the_epoch_that_it_reached() -> None:
    progress = running()
    take(progress, lane(progress), S_0=13, S_1=13, W_0=11, W_1=13)
    assert progress.committed == 13
    assert progress.restore == {"W[0]": 11}


def test_a_source_that_cannot_read_is_waited_for() -> None:
    progress = running()
    found = lane(progress)
    take(progress, found, S_0=11, S_1=13, W_0=13, W_1=13)
    assert progress.committed == 11
    assert progress.restore == {}
    assert progress.present(head=20, held=("S[0]",), limit=3, join=0) is None
    assert lane(progress, held=("W[0]",)).starts == {"S[0]": 11, "S[1]": 11, "W[1]": 11}


def test_state_that_is_not_there_is_done_without() -> None:
    progress = running()
    take(progress, lane(progress), S_0=13, S_1=13, W_1=13)
    progress.lost_state({"W[0]"})
    assert progress.restore == {"W[0]": 0}
    assert progress.committed == 13
