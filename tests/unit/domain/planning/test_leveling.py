"""A wave is spread over the stages of its epochs, without another choice and without more load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import BestDensity, NodeSpace, RecoveryProblem, level_out, recovery_problem
from domain.planning.deployment import partition_levels
from domain.planning.epoch_time import BUSIEST
from domain.planning.placement import Placement
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.simulation.incident_graphs import branches

WIDTH = 4
BOUND = 0.8


CHAINS = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="Source", kind="k", parallelism=WIDTH),
            OperatorSpec(
                name="Parser",
                kind="k",
                parallelism=WIDTH,
                inputs=(InputSpec(source="Source", partitioning="one_to_one"),),
            ),
            OperatorSpec(name="Out", kind="k", inputs=(InputSpec(source="Parser"),), output=True),
        ),
    )
)


def problem_of(
    costs: dict[str, float], nodes: int = 2, capacity: float = 100.0, graph: Topology | None = None
) -> RecoveryProblem:
    """All of a topology is down, and `nodes` are empty."""
    graph = graph or branches("t", WIDTH)
    return recovery_problem(
        [graph],
        failed={f"t/{p}" for p in graph.partitions},
        costs={f"t/{p}": cost for p, cost in costs.items()},
        nodes=[NodeSpace(name=f"n{i}", capacity=capacity) for i in range(nodes)],
        max_utilisation=BOUND,
    )


def stage_time(graph: Topology, problem: RecoveryProblem, placement: Placement) -> float:
    """The sum over the levels of what the busiest node has to do."""
    work: dict[tuple[int, str], float] = {}
    levels = partition_levels(graph)
    for name, node in placement.placed.items():
        key = levels[name.removeprefix("t/")], node
        work[key] = work.get(key, 0.0) + problem.placed_costs[name]
    busiest: dict[int, float] = {}
    for (level, _), load in work.items():
        busiest[level] = max(busiest.get(level, 0.0), load)
    return sum(busiest.values())


def heaped(problem: RecoveryProblem) -> Placement:
    """All of the first level on one node, all others on the other."""
    placed = {p: "n0" if problem.levels[p] == 0 else "n1" for p in problem.partitions}
    load = {node: sum(problem.placed_costs[p] for p in placed if placed[p] == node) for node in ("n0", "n1")}
    return Placement(assignment=dict(placed), placed=placed, load=load)


def torn(problem: RecoveryProblem, placement: Placement) -> int:
    """How many chains are on more than one node."""
    homes = ({placement.placed[p] for p in chain if p in placement.placed} for chain in problem.affinity)
    return sum(len(nodes) > 1 for nodes in homes)


def test_chains_are_kept_together_where_epochs_are_longer_for_that() -> None:
    """One parser is dear: with its source elsewhere the nodes would be more equally busy."""
    names = [f"{operator}[{i}]" for operator in ("Source", "Parser") for i in range(WIDTH)]
    costs = {**dict.fromkeys([*names, "Out[0]"], 4.0), "Parser[0]": 20.0}
    problem = problem_of(costs, graph=CHAINS)
    assert len(problem.affinity) == WIDTH
    before = heaped(problem)
    assert torn(problem, before) == WIDTH
    after = level_out(problem, before)
    assert torn(problem, after) == 0
    assert after.placed.keys() == before.placed.keys()


def test_no_node_has_all_of_a_level() -> None:
    graph = branches("t", WIDTH)
    problem = problem_of(dict.fromkeys(graph.partitions, 4.0))
    before = heaped(problem)
    after = level_out(problem, before)
    assert after.placed.keys() == before.placed.keys()
    assert stage_time(graph, problem, after) <= 0.6 * stage_time(graph, problem, before)
    sources = [after.placed[f"t/Source[{i}]"] for i in range(WIDTH)]
    assert sorted(sources) == ["n0", "n0", "n1", "n1"]


def test_what_is_fixed_stays() -> None:
    graph = branches("t", WIDTH)
    problem = problem_of(dict.fromkeys(graph.partitions, 4.0))
    before = heaped(problem)
    fixed = {"t/Source[0]", "t/Source[1]", "t/Source[2]", "t/Source[3]"}
    after = level_out(problem, before, fixed)
    assert {p: after.placed[p] for p in fixed} == dict.fromkeys(fixed, "n0")
    assert level_out(problem, before, before.placed.keys()) == before


@pytest.mark.parametrize("cost", [4.0, 10.0], ids=["there is room elsewhere", "there is not"])
def test_closed_nodes_get_something_only_where_others_have_no_room(cost: float) -> None:
    graph = branches("t", WIDTH)
    problem = problem_of(dict.fromkeys(graph.partitions, cost), nodes=3)
    after = level_out(problem, heaped(problem), closed={"n0", "n1"})
    elsewhere = {node for node in after.placed.values() if node != "n2"}
    assert bool(elsewhere) == (cost * len(graph.partitions) > BOUND * 100.0)
    assert after.placed.keys() == heaped(problem).placed.keys()
    everywhere = {"n0", "n1", "n2"}
    assert level_out(problem, heaped(problem), closed=everywhere) == level_out(problem, heaped(problem))


def test_chains_are_not_torn_for_a_node_that_is_closed() -> None:
    """The source runs there; its parser goes to it, and what has no such chain elsewhere."""
    names = [f"{operator}[{i}]" for operator in ("Source", "Parser") for i in range(WIDTH)]
    problem = problem_of(dict.fromkeys([*names, "Out[0]"], 4.0), graph=CHAINS)
    down = [p for p in problem.partitions if p not in ("t/Source[0]", "t/Source[1]")]
    placed = dict.fromkeys(down, "n1")
    staying = {"t/Source[0]": "n0", "t/Source[1]": "n0"}
    load = {"n0": 8.0, "n1": 28.0}
    before = Placement(assignment={**placed, **staying}, placed=placed, load=load, unplaced=())
    after = level_out(problem, before, closed={"n0"})
    assert after.placed["t/Parser[0]"] == after.placed["t/Parser[1]"] == "n0"
    assert set(after.placed.values()) == {"n0", "n1"}


def test_what_a_closed_node_has_to_do_does_not_hide_what_others_save() -> None:
    """One after the other, the largest first, leaves 28 and 20; then two change places."""
    costs = {"Source[0]": 75.0, **{f"Out[{i}]": cost for i, cost in enumerate((12.0, 12.0, 8.0, 8.0, 8.0))}}
    graph = Topology(
        TopologySpec(
            name="t",
            operators=(
                OperatorSpec(name="Source", kind="k"),
                OperatorSpec(
                    name="Out", kind="k", parallelism=5, inputs=(InputSpec(source="Source"),), output=True
                ),
            ),
        )
    )
    problem = problem_of(costs, nodes=3, graph=graph)
    placed = {f"t/Out[{i}]": "n1" for i in range(5)}
    before = Placement(
        assignment={"t/Source[0]": "n0", **placed}, placed=placed, load={"n0": 75.0, "n1": 48.0}, unplaced=()
    )
    after = level_out(problem, before, closed={"n0"})
    assert after.load == {"n0": 75.0, "n1": 24.0, "n2": 24.0}


def test_partitions_of_topologies_that_have_no_part_in_it_take_room() -> None:
    graph = branches("t", WIDTH)
    problem = problem_of(dict.fromkeys(graph.partitions, 4.0))
    crowded = replace(
        problem, assigned={"u/X[0]": "n0"}, placed_costs={**problem.placed_costs, "u/X[0]": 60.0}
    )
    before = heaped(problem)
    before = replace(before, assignment={**before.assignment, "u/X[0]": "n0"})
    after = level_out(crowded, before)
    assert after.assignment["u/X[0]"] == "n0"
    assert after.load["n0"] <= 80.0
    assert after.load["n0"] + after.load["n1"] == pytest.approx(60.0 + sum(problem.placed_costs.values()))


@given(
    data=st.data(), nodes=st.integers(1, BUSIEST + 2), graph=st.sampled_from([branches("t", WIDTH), CHAINS])
)
@settings(max_examples=250, deadline=None)
def test_whatever_is_planned_costs_no_more_room_and_no_more_time(
    data: st.DataObject, nodes: int, graph: Topology
) -> None:
    costs = {p: data.draw(st.floats(0.1, 30.0)) for p in graph.partitions}
    problem = problem_of(costs, nodes, graph=graph)
    before = BestDensity().plan(problem).placement
    assert before is not None
    after = level_out(problem, before)
    assert after.placed.keys() == before.placed.keys()
    assert sum(after.load.values()) == pytest.approx(sum(before.load.values()), abs=1e-6)
    for name, load in after.load.items():
        mine = sum(problem.placed_costs[p] for p, node in after.assignment.items() if node == name)
        assert load == pytest.approx(mine, abs=1e-6)
        assert load <= BOUND * 100.0 + 1e-6
    assert torn(problem, after) <= torn(problem, before)
    if torn(problem, after) < torn(problem, before):
        return  # an exchange of the input costs more than a longer stage
    # A norm stands in for the maximum, so it may be a little longer where several nodes are equally busy.
    assert stage_time(graph, problem, after) <= 1.25 * stage_time(graph, problem, before) + 1e-6
