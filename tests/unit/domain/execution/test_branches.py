"""Branches: which partitions go on without lost inputs, from where, and until when."""

from __future__ import annotations

import pytest

from domain.execution.flows import Flows
from domain.execution.job import PartitionReport
from domain.execution.progress import Position, ProgressTracker
from domain.execution.tentative_turns import TentativeTurns
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.copies import branch_of, is_branch, is_copy, operator_of, partition_of, with_copies
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec

ALL = {"Q": 0.0, "V": 0.0, "J": 0.0}


def topology(deterministic: bool = True) -> Topology:
    """S, four partitions and T feed Q, which is read by V; J joins Q with T."""

    def operator(name: str, *inputs: str, parallelism: int = 1, correlated: bool = False) -> OperatorSpec:
        return OperatorSpec(
            name=name,
            kind="k",
            parallelism=parallelism,
            inputs=tuple(InputSpec(source=source) for source in inputs),
            output=name in ALL,
            correlated=correlated,
            deterministic=deterministic,
        )

    return Topology(
        TopologySpec(
            name="t",
            operators=(
                operator("S", parallelism=4),
                operator("T"),
                operator("Q", "S"),
                operator("V", "Q"),
                operator("J", "Q", "T", correlated=True),
            ),
        )
    )


HOMES = {"S[0]": "n0", "S[1]": "n1", "S[2]": "n2", "S[3]": "n3"}
HOMES |= {"T[0]": "n4", "Q[0]": "n5", "V[0]": "n5", "J[0]": "n6"}


@pytest.fixture
def run() -> ProgressTracker:
    """All partitions at epoch 20, checkpoint 10 complete."""
    tracker = ProgressTracker(topology(), Position(20, checkpoint=10), HOMES)
    tracker.set_absent(())
    return tracker


def test_nothing_goes_on_tentatively_while_nothing_is_lost(run: ProgressTracker) -> None:
    assert not run.branch(ALL, Flows(run.topology))
    assert run.branches.homes == {} == run.branches.status()


def test_what_lacks_a_quarter_of_its_input_goes_on_with_the_rest(run: ProgressTracker) -> None:
    run.set_absent({"S[3]"})
    assert run.branch(ALL, Flows(run.topology))
    assert run.branches.homes == {"Q?[0]": "n5", "V?[0]": "n5", "J?[0]": "n6"}
    assert run.branches.origins == dict.fromkeys(["Q?[0]", "V?[0]", "J?[0]"], 20)
    assert run.branches.fidelity == dict.fromkeys(["Q[0]", "V[0]", "J[0]"], 0.75)
    assert not run.branch(ALL, Flows(run.topology)), "they have begun already"


def test_the_share_follows_the_rates(run: ProgressTracker) -> None:
    run.set_absent({"S[3]"})
    flows = Flows(run.topology)
    for partition in run.topology.partitions:
        flows.take(partition, 7 if partition == "S[3]" else 1, {}, 1.0)
    assert run.branch(ALL, flows)
    assert run.branches.fidelity["Q[0]"] == 0.3


def test_the_share_follows_who_feeds_whom() -> None:
    """Both sources give as much, but S[1] gives nearly all of it to Q[1]."""
    source = OperatorSpec(name="S", kind="k", parallelism=2)
    query = OperatorSpec(name="Q", kind="k", parallelism=2, inputs=(InputSpec(source="S"),), output=True)
    graph = Topology(TopologySpec(name="t", operators=(source, query)))
    homes = {"S[0]": "n0", "S[1]": "n1", "Q[0]": "n2", "Q[1]": "n3"}
    run = ProgressTracker(graph, Position(20, checkpoint=10), homes)
    flows = Flows(graph)
    for partition, routed in {"S[0]": [50, 50], "S[1]": [10, 90], "Q[0]": [], "Q[1]": []}.items():
        flows.take(partition, 100, {"Q": routed}, 1.0)
    run.set_absent({"S[1]"})
    assert run.branch({"Q": 0.0}, flows)
    assert run.branches.fidelity == {"Q[0]": 0.833333, "Q[1]": 0.357143}


def test_a_join_without_one_of_its_inputs_gives_nothing(run: ProgressTracker) -> None:
    run.set_absent({"T[0]"})
    assert not run.branch(ALL, Flows(run.topology))
    assert run.branches.homes == {}


def test_output_that_is_not_good_enough_is_not_given(run: ProgressTracker) -> None:
    """J alone is good enough; Q goes on because J reads it, and gives nothing by itself."""
    run.set_absent({"S[3]"})
    assert run.branch({"Q": 0.75, "V": 0.75, "J": 0.7}, Flows(run.topology))
    assert set(run.branches.homes) == {"Q?[0]", "J?[0]"}
    assert not run.branch({"Q": 0.75}, Flows(run.topology))
    assert run.branches.homes == {}


def test_branches_run_with_those_furthest_ahead(run: ProgressTracker) -> None:
    run.set_absent({"S[3]"})
    run.branch(ALL, Flows(run.topology))
    lane = run.present(head=22, held=(), limit=8, join=1)
    assert lane is not None
    assert lane.starts == dict.fromkeys(["S[0]", "S[1]", "S[2]", "T[0]", "Q?[0]", "V?[0]", "J?[0]"], 20), (
        "neither what is lost nor the exact partitions below"
    )
    run.take(lane, dict.fromkeys(lane.starts, 22), told=run.told(), head=22)
    assert run.branches.origins == {}
    assert run.branches.status()["V[0]"].since == 21
    assert run.branches.status()["V[0]"].epoch == 22
    assert (run.progress["Q[0]"], run.committed) == (20, 20)


def test_a_branch_without_any_input_in_the_lane_does_not_run(run: ProgressTracker) -> None:
    run.set_absent({"S[3]"})
    run.branch(ALL, Flows(run.topology))
    lane = run.present(head=22, held=("S[0]", "S[1]", "S[2]", "Q?[0]"), limit=8, join=1)
    assert lane is not None
    assert set(lane.starts) == {"T[0]", "J?[0]"}


def test_a_branch_goes_on_until_its_partition_has_caught_up(run: ProgressTracker) -> None:
    run.set_absent({"S[3]"})
    run.branch(ALL, Flows(run.topology))
    lane = run.present(head=22, held=(), limit=8, join=1)
    assert lane is not None
    run.take(lane, dict.fromkeys(lane.starts, 22), told=run.told(), head=22)
    moved = {**HOMES, "S[3]": "n7"}
    run.adopt(Plan(generation=2, kind="recover", assignment=moved, restore=["S[3]"], checkpoint=10))
    run.set_absent(())
    run.branch(ALL, Flows(run.topology))
    assert set(run.branches.homes) == {"Q?[0]", "V?[0]", "J?[0]"}
    replay = run.replay(held=(), epochs=64)
    assert replay is not None
    assert not any(map(is_branch, replay.starts))
    run.take(replay, {name: 22 for name in replay.starts if replay.end(name) == 22}, told=run.told(), head=22)
    run.branch(ALL, Flows(run.topology))
    assert run.branches.homes == {} == run.branches.status()
    assert run.committed == 22


@pytest.mark.parametrize("lost", ["Q[0]", "S[0]"])
def test_more_is_lost(run: ProgressTracker, lost: str) -> None:
    run.set_absent({"S[3]"})
    run.branch(ALL, Flows(run.topology))
    run.set_absent({"S[3]", lost})
    run.branch(ALL, Flows(run.topology))
    assert set(run.branches.homes) == ({"Q?[0]", "V?[0]", "J?[0]"} if lost == "S[0]" else set())
    assert run.branches.fidelity.get("Q[0]", 0.0) == (0.5 if lost == "S[0]" else 0.0)


def test_what_the_log_has_of_them_is_gone_on_with(run: ProgressTracker) -> None:
    run.set_absent({"S[3]"})
    run.branch(ALL, Flows(run.topology))
    assert run.position.branches == {}, "they have no state yet"
    lane = run.present(head=21, held=(), limit=8, join=1)
    done = dict.fromkeys(["Q?[0]", "S[0]", "S[1]", "S[2]", "T[0]"], 21)
    run.take(lane, done, told=run.told(), head=21)
    again = ProgressTracker(topology(), run.position, HOMES)
    again.set_absent({"S[3]"})
    assert again.branches.progress == {"Q?[0]": 21}
    again.branch(ALL, Flows(again.topology))
    assert again.branches.origins == dict.fromkeys(["V?[0]", "J?[0]"], 20)


def test_a_branch_whose_state_is_gone_begins_anew(run: ProgressTracker) -> None:
    turns = TentativeTurns(run.topology, run)
    run.set_absent({"S[3]"})
    run.branch(ALL, Flows(run.topology))
    run.branches.origins.clear()
    told = turns.reported({"Q?[0]": PartitionReport(epoch=20, error="no state", missing=True)}, 5.0)
    assert [one.where for one in told if hasattr(one, "where")] == ["tentative output of Q[0]"]
    assert run.branch(ALL, Flows(run.topology))
    assert run.branches.origins == {"Q?[0]": 20}


def test_the_view_of_branches() -> None:
    graph = with_copies(topology(), frozenset({"S"}), frozenset({"Q", "V"}))
    assert graph.upstream("V?[0]") == ["Q[0]", "Q?[0]"]
    assert graph.upstream("Q?[0]") == ["S[0]", "S[1]", "S[2]", "S[3]"]
    assert graph.downstream("V?[0]") == []
    assert graph.queries == topology().queries
    assert with_copies(graph, frozenset(), frozenset()) is graph
    assert (branch_of("Q[0]"), partition_of("Q?[0]"), operator_of("Q?[0]")) == ("Q?[0]", "Q[0]", "Q")
    assert [is_copy(name) for name in ("Q?[0]", "Q~[0]", "Q[0]")] == [True, True, False]
