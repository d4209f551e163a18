"""The costs of partitions in an incident, and the nodes that are requested for them."""

from __future__ import annotations

import pytest

from domain.recovery.costs import costs_fix
from domain.recovery.events import Looked, NodeArrived, NodeReturned, PlanPublished, TopologyWithdrawn
from domain.recovery.incident import Deployment, NodeView, Phase
from domain.recovery.instructions import AskForNode, KeepCosts
from tests.simulation.incident_graphs import branches
from tests.unit.domain.recovery.chains import machine, report
from tests.unit.domain.recovery.test_machine import arrive, lose, only

GRAPH = branches("t0", 1)  # Source[0], A[0], B[0], All[0], Unused[0]
PARTITIONS = GRAPH.partitions


def nodes(*capacities: float) -> dict[str, NodeView]:
    return {
        f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True, capacity=capacity)
        for i, capacity in enumerate(capacities, 1)
    }


def deployment(costs: dict[str, float], home: str = "node-1") -> Deployment:
    return Deployment(topology=GRAPH, generation=1, assignment=dict.fromkeys(PARTITIONS, home), costs=costs)


def test_a_node_that_was_overloaded_is_entitled_to_its_bound() -> None:
    (fixed,) = costs_fix({"t0": deployment(dict.fromkeys(PARTITIONS, 70.0))}, nodes(100.0), {}, 0.8).values()
    assert sum(fixed.values()) == pytest.approx(80.0, abs=1e-3)
    assert sum(fixed.values()) <= 80.0, "rounded down: what filled a node fills one"


def test_measured_costs_within_the_bound_stay_and_unmeasured_ones_count_a_little() -> None:
    fixed = costs_fix({"t0": deployment({"A[0]": 33.3333333})}, nodes(100.0), {}, 0.8)["t0"]
    assert fixed["A[0]"] == pytest.approx(33.3333, abs=1e-4)
    assert fixed["B[0]"] == pytest.approx(1.0)


def test_what_was_fixed_stays_and_a_newcomer_shares_what_was_left() -> None:
    first = deployment(dict.fromkeys(PARTITIONS, 10.0))
    kept = costs_fix({"t0": first}, nodes(100.0), {}, 0.8)
    assert costs_fix({"t0": deployment(dict.fromkeys(PARTITIONS, 99.0))}, nodes(100.0), kept, 0.8) == {}
    both = {"t0": first, "t1": deployment(dict.fromkeys(PARTITIONS, 10.0))}
    fixed = costs_fix(both, nodes(100.0), kept, 0.8)
    assert set(fixed) == {"t1"}
    assert sum(fixed["t1"].values()) == pytest.approx(30.0, abs=1e-3)


def test_a_topology_that_is_deployed_with_other_partitions_is_fixed_anew() -> None:
    first, second = deployment(dict.fromkeys(PARTITIONS, 10.0)), deployment({}, home="node-2")
    kept = costs_fix({"t0": first, "t1": second}, nodes(100.0, 100.0), {}, 0.8)
    wider = branches("t1", 2)
    homes = dict.fromkeys(wider.partitions, "node-1")
    second = Deployment(topology=wider, generation=2, assignment=homes, costs=dict.fromkeys(homes, 10.0))
    fixed = costs_fix({"t0": first, "t1": second}, nodes(100.0, 100.0), kept, 0.8)
    assert fixed.keys() == {"t1"}
    assert fixed["t1"].keys() == set(wider.partitions)
    assert sum(fixed["t1"].values()) == pytest.approx(30.0, abs=1e-3), "what t0 leaves on node-1"


def test_one_with_fewer_partitions_keeps_its_costs() -> None:
    kept = costs_fix({"t0": deployment({"A[0]": 30.0})}, nodes(100.0), {}, 0.8)
    kept["t0"]["A[1]"] = 20.0
    assert costs_fix({"t0": deployment({"A[0]": 99.0})}, nodes(100.0), kept, 0.8) == {}


@pytest.mark.parametrize("method", ["auto", "incremental", "blocking"])
def test_recovery_goes_on_where_a_topology_is_deployed_with_other_partitions(method: str) -> None:
    subject = machine(topologies=2, method=method)
    lose(subject, "node-2", "node-3")
    subject.handle_stimulus(TopologyWithdrawn(at=4.0, topology="t1", reason="it was undeployed"))
    wider = branches("t1", 4)
    homes = dict.fromkeys(wider.partitions, "node-1")
    subject.deployments["t1"] = Deployment(topology=wider, generation=8, assignment=homes)
    said = subject.handle_stimulus(Looked(at=4.5))
    assert [set(kept.costs["t1"]) for kept in only(said, KeepCosts)] == [set(homes)]
    arrive(subject, "node-4")
    arrive(subject, "node-5", at=6.0)
    for generation in (4, 5):
        subject.handle_stimulus(PlanPublished(at=7.0, topology="t0", generation=generation))
        report(subject, "running", generation=generation)
    assert subject.cases["t0"].failed == set()
    assert subject.cases["t0"].phase is Phase.VERIFYING


def test_a_node_on_top_is_as_large_as_the_largest_home() -> None:
    subject = machine()
    subject.nodes["node-3"].capacity = 200.0
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    subject.requests["incident-7/node-3/1"].state = "failed"
    subject.handle_stimulus(Looked(at=6.0))
    for request in subject.requests.values():
        request.state = "joined"
    asked = only(report(subject, "degraded"), AskForNode)
    assert [one.lost_node for one in asked] == ["node-3"]
    assert subject.requests[asked[0].key].capacity == 200.0


def test_a_node_asked_for_on_top_is_not_given_up_because_its_namesake_came_back() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    subject.nodes["node-3"].alive = True
    subject.handle_stimulus(NodeReturned(at=6.0, node="node-3", evidence="a new session"))
    asked = only(report(subject, "degraded"), AskForNode)
    assert len(asked) == 1
    assert not only(subject.handle_stimulus(Looked(at=8.0)), AskForNode), "it is on its way"
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    subject.handle_stimulus(NodeArrived(at=9.0, node="node-9"))
    assert subject.cases["t0"].wave == 2
