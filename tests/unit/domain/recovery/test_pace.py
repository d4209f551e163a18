"""A wave brings back as many queries as keep pace with their input, while nodes are expected."""

from __future__ import annotations

import random

import msgspec
import pytest

from domain.recovery.events import Looked, NodeArrived, PlanPublished, RecoveryAsked
from domain.recovery.incident import Deployment, NodeView
from domain.recovery.instructions import CreatePlan, Instruction
from domain.recovery.machine import IncidentMachine
from domain.recovery.pace import KEEPS_PACE, LEAVES_TIME, NOTICEABLE, keeps_pace, stage_seconds
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.unit.domain.recovery.chains import report
from tests.unit.domain.recovery.test_machine import lose, only, story

CHAINS = 4
COSTS = {"Source": 10.0, "Query": 5.0}
NODES = {f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True) for i in range(1, 6)}


def deployment(usual_load: float | None = None) -> Deployment:
    """Chain i, a source and its query, is on node-(i+1). Its stages take 0.1 s and 0.05 s on each node."""
    operators: list[OperatorSpec] = []
    for index in range(CHAINS):
        source = f"Source{index}"
        inputs = (InputSpec(source=source, partitioning="one_to_one"),)
        operators.append(OperatorSpec(name=source, kind="source"))
        operators.append(OperatorSpec(name=f"Query{index}", kind="k", inputs=inputs, output=True))
    graph = Topology(TopologySpec(name="t0", operators=tuple(operators)))
    return Deployment(
        topology=graph,
        generation=3,
        assignment={p: f"node-{int(p[-4]) + 1}" for p in graph.partitions},
        costs={p: COSTS[p[:-4]] for p in graph.partitions},
        latest=10,
        usual_load=usual_load,
    )


def costs() -> dict[str, float]:
    return deployment().costs


def test_a_stage_takes_as_long_as_its_busiest_node() -> None:
    subject = deployment()
    assert stage_seconds(subject, subject.homes, costs(), NODES) == pytest.approx(0.15)
    together = {**subject.homes, "Source0[0]": "node-2", "Query0[0]": "node-3"}
    assert stage_seconds(subject, together, costs(), NODES) == pytest.approx(0.2 + 0.1)


def test_a_small_node_takes_longer_and_a_large_one_no_less_than_a_core() -> None:
    subject = deployment()
    sizes = {name: NodeView(name=name, alive=True, usable=True, capacity=400.0) for name in NODES}
    assert stage_seconds(subject, subject.homes, costs(), sizes) == pytest.approx(0.15)
    sizes["node-1"].capacity = 20.0
    assert stage_seconds(subject, subject.homes, costs(), sizes) == pytest.approx(0.5 + 0.25)


def test_others_on_a_node_leave_less_of_it() -> None:
    """As Java does: a stage waits for what has nothing to do with its partitions."""
    subject = deployment()
    full = {name: NodeView(name=name, alive=True, usable=True, load=50.0) for name in NODES}
    assert stage_seconds(subject, subject.homes, costs(), full) == pytest.approx(0.3)
    full["node-1"].load = 100.0
    assert stage_seconds(subject, subject.homes, costs(), full) == pytest.approx(10.0 + 5.0)


def test_it_is_not_known_where_a_node_is_not() -> None:
    subject = deployment()
    assert stage_seconds(subject, subject.homes, costs(), {}) is None


TWO_CHAINS = {p: "node-1" for p in deployment().homes if p[-4] in "01"}
"""Their stages take 0.3 s together, 0.15 s more than at home."""


@pytest.mark.parametrize(
    ("node", "load", "first", "later"),
    [
        ("node-1", LEAVES_TIME - 0.01, True, True),
        ("node-1", LEAVES_TIME + 0.01, True, False),
        ("node-1", KEEPS_PACE + 0.01, False, False),
        ("node-2", LEAVES_TIME + 0.01, True, True),
        ("node-2", KEEPS_PACE + 0.5, True, True),
    ],
)
def test_a_later_wave_leaves_time_where_it_replays(node: str, load: float, first: bool, later: bool) -> None:
    """A third chain, on the node that has two or on one that has none, where it makes epochs no longer."""
    third = {p: node for p in deployment().homes if p[-4] == "2"}
    longer = 0.3 if node == "node-1" else 0.15
    subject = deployment(load - longer)
    for beside, expected in ((False, first), (True, later)):
        found = keeps_pace(subject, {**TWO_CHAINS, **third}, TWO_CHAINS, costs(), NODES, beside=beside)
        assert found is expected


def test_little_more_on_a_node_without_time_is_a_replay_all_the_same() -> None:
    subject = deployment(KEEPS_PACE)
    tiny = {**costs(), "Source2[0]": 1.0, "Query2[0]": 1.0}
    after = {**TWO_CHAINS, "Source2[0]": "node-1", "Query2[0]": "node-1"}
    assert keeps_pace(subject, after, TWO_CHAINS, tiny, NODES)
    assert not keeps_pace(subject, after, TWO_CHAINS, tiny, NODES, beside=True)


def machine(usual_load: float | None, *, lost: int = 3) -> tuple[IncidentMachine, list[CreatePlan]]:
    """Of the four nodes, this many are lost at once."""
    nodes = {f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True) for i in range(1, 5)}
    subject = IncidentMachine(
        number=1, deployments={"t0": deployment(usual_load)}, nodes=nodes, opened_at=0.0
    )
    gone = [f"node-{i}" for i in range(5 - lost, 5)]
    return subject, only(lose(subject, *gone), CreatePlan) if gone else []


def answering(plan: CreatePlan) -> int:
    return sum(p.startswith("Query") for p in plan.assignment)


@pytest.mark.parametrize(
    ("usual_load", "queries"),
    [(None, 4), (0.3, 4), (KEEPS_PACE - 0.44, 3), (KEEPS_PACE - 0.29, 2), (KEEPS_PACE - 0.01, 1)],
    ids=["unknown", "there is time for all", "for three", "for two", "for none more"],
)
def test_as_many_queries_return_as_keep_pace(usual_load: float | None, queries: int) -> None:
    """Each chain more on the node that is left makes an epoch 0.15 s longer. One runs there already."""
    subject, plans = machine(usual_load)
    if queries == 1:
        assert not plans
        assert "so the rest waits for 3 nodes that are expected" in story(looked(subject))
    else:
        assert answering(plans[0]) == queries


def looked(subject: IncidentMachine) -> list[Instruction]:
    subject.memory.waiting.clear()  # what is known already is not told again
    return subject.handle_stimulus(Looked(at=2.0))


def test_a_smaller_wave_is_told_in_costs_as_they_are() -> None:
    _, (plan,) = machine(KEEPS_PACE - 0.29)
    each, told = COSTS["Source"] + COSTS["Query"], plan.explanation
    assert len(plan.restore) == 2
    assert told["cost_percent"] == pytest.approx(each)
    assert told["capacity_percent"] == pytest.approx(80.0 - each)
    assert told["planned_load_percent"] == pytest.approx({"node-1": 2 * each})
    assert [one["cost"] for one in told["explanations"]] == pytest.approx([each] * 3, abs=1e-3)
    assert [one["marginal_cost"] for one in told["explanations"]] == pytest.approx([each] * 3, abs=1e-3)
    assert "takes 0.15 of the 0.65 cores that are free" in plan.reason
    assert "With more of its queries, epochs would take longer than their input lasts." in plan.reason


@pytest.mark.parametrize("seed", range(12))
def test_a_smaller_wave_keeps_pace_where_it_goes(seed: int) -> None:
    """Two small nodes are left, and costs are drawn. Told in other costs, the wave stays where it was put."""
    dice = random.Random(seed)
    subject = deployment(dice.uniform(0.4, 0.8))
    subject.costs = {p: dice.uniform(1.0, 4.0) for p in subject.costs}
    nodes = {
        f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True, capacity=20.0, load=4.0)
        for i in range(1, 5)
    }
    incident = IncidentMachine(number=1, deployments={"t0": subject}, nodes=nodes, opened_at=0.0)
    subject.homes = dict(subject.assignment)
    for plan in only(lose(incident, "node-3", "node-4"), CreatePlan):
        taken = stage_seconds(subject, plan.assignment, incident.memory.costs["t0"], nodes)
        usual = stage_seconds(subject, subject.homes, incident.memory.costs["t0"], nodes)
        before = stage_seconds(
            subject,
            {p: node for p, node in subject.homes.items() if node in ("node-1", "node-2")},
            incident.memory.costs["t0"],
            nodes,
        )
        assert taken is not None
        assert usual is not None
        assert before is not None
        assert subject.usual_load is not None
        assert subject.usual_load + taken - usual <= KEEPS_PACE or taken <= before + NOTICEABLE


def test_a_topology_that_keeps_pace_does_not_wait_for_another() -> None:
    subject, _ = machine(KEEPS_PACE - 0.01, lost=0)
    second = deployment(0.1)
    second.topology = Topology(msgspec.structs.replace(second.topology.spec, name="t1"))
    subject.deployments["t1"] = second
    said = lose(subject, "node-2", "node-3", "node-4")
    (plan,) = only(said, CreatePlan)
    assert plan.topology == "t1"
    assert answering(plan) == CHAINS
    assert "With another query of t0" in story(said)


def test_what_no_query_would_notice_returns_all_the_same() -> None:
    """All is lost, so nothing gives output that would be late; a node that comes brings back a little."""
    subject, plans = machine(KEEPS_PACE, lost=4)
    assert not plans
    said = subject.handle_stimulus(NodeArrived(at=5.0, node="node-9"))
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    plan = only(said, CreatePlan) or only(subject.handle_stimulus(Looked(at=6.0)), CreatePlan)
    assert 1 <= answering(plan[0]) < CHAINS


def test_an_operator_who_wants_the_nodes_used_now_gets_it() -> None:
    subject, plans = machine(KEEPS_PACE - 0.01)
    assert not plans
    said = subject.handle_stimulus(
        RecoveryAsked(at=3.0, topology="t0", actor="kim", reason="rather late than never")
    )
    assert answering(only(said, CreatePlan)[0]) == CHAINS


def test_where_no_node_is_expected_everything_returns() -> None:
    subject, (plan,) = machine(KEEPS_PACE - 0.29)
    assert answering(plan) == 2
    for request in subject.requests.values():
        request.state = "joined"
    subject.handle_stimulus(PlanPublished(at=2.0, topology="t0", generation=plan.generation))
    (last,) = only(report(subject, "degraded", absent=tuple(subject.cases["t0"].failed)), CreatePlan)
    assert answering(last) == CHAINS
