"""A wave gives up a query rather than tear a chain, but not most of what it could win back."""

from __future__ import annotations

import pytest

from domain.recovery.incident import Deployment, NodeView
from domain.recovery.instructions import CreatePlan
from domain.recovery.machine import IncidentMachine
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.unit.domain.recovery.test_machine import lose, only

WIDTH = 4
ONE_TO_ONE = (InputSpec(source="Source", partitioning="one_to_one"),)


def plan_with(rooms: tuple[float, float], priority: int, *, proved: bool = False) -> CreatePlan:
    """All ran on node-3, which is lost. A source takes 1, a parser 2; the query `Large` 4, `Small` 2. proved:
    more than these rooms proved too much before."""
    graph = Topology(
        TopologySpec(
            name="t0",
            operators=(
                OperatorSpec(name="Source", kind="k", parallelism=WIDTH),
                OperatorSpec(name="Parser", kind="k", parallelism=WIDTH, inputs=ONE_TO_ONE),
                OperatorSpec(name="Large", kind="k", inputs=(InputSpec(source="Parser"),), output=True),
                OperatorSpec(
                    name="Small",
                    kind="k",
                    inputs=(InputSpec(source="Parser"),),
                    output=True,
                    priority=priority,
                ),
            ),
        )
    )
    costs = {"Source": 1.0, "Parser": 2.0, "Large": 4.0, "Small": 2.0}
    subject = IncidentMachine(
        number=1,
        deployments={
            "t0": Deployment(
                topology=graph,
                generation=3,
                assignment=dict.fromkeys(graph.partitions, "node-3"),
                costs={p: costs[p.partition("[")[0]] for p in graph.partitions},
                priorities={"Large[0]": 3, "Small[0]": priority},
                latest=10,
            )
        },
        nodes={
            f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True, capacity=room / 0.8)
            for i, room in enumerate((*rooms, 40.0), start=1)
        },
    )
    if proved:
        subject.memory.limits["t0"] = {f"node-{i}": room for i, room in enumerate(rooms, start=1)}
    (plan,) = only(lose(subject, "node-3"), CreatePlan)
    assert isinstance(plan, CreatePlan)
    return plan


def torn(plan: CreatePlan) -> int:
    pairs = [(f"Source[{i}]", f"Parser[{i}]") for i in range(WIDTH)]
    return sum(plan.assignment[source] != plan.assignment[parser] for source, parser in pairs)


@pytest.mark.parametrize(
    ("rooms", "queries"), [((17.0, 1.0), {"Large[0]"}), ((18.0, 1.0), {"Large[0]", "Small[0]"})]
)
def test_no_chain_is_torn_for_the_last_query(rooms: tuple[float, float], queries: set[str]) -> None:
    """In sum there is room for both."""
    plan = plan_with(rooms, priority=1)
    assert torn(plan) == 0
    assert plan.assignment.keys() & {"Large[0]", "Small[0]"} == queries


def test_nodes_are_planned_a_little_fuller_rather_than_tear_a_chain() -> None:
    """With whole chains there is room for `Small` only: 9 is a tenth more than 8.2, nearly."""
    plan = plan_with((8.2, 8.2), priority=1)
    assert torn(plan) == 0
    assert "Large[0]" in plan.assignment
    assert plan.explanation["max_utilisation"] == 0.88
    assert "to 88% of their CPU instead of 80%" in plan.reason


def test_no_node_is_planned_fuller_than_what_proved_enough() -> None:
    plan = plan_with((8.2, 8.2), priority=1, proved=True)
    assert torn(plan) > 0
    assert plan.explanation["max_utilisation"] == 0.8


def test_a_chain_is_torn_where_little_would_return_otherwise() -> None:
    """Whole chains leave rooms of 2 and 2, so one of the two queries returns; torn ones leave 4."""
    plan = plan_with((8.0, 8.0), priority=1)
    assert "Large[0]" in plan.assignment
    assert torn(plan) > 0
