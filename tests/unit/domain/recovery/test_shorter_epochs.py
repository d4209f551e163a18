"""A wave that would fill its nodes to the brim gets shorter epochs on nodes planned a little fuller."""

from __future__ import annotations

import pytest

from domain.recovery.incident import Deployment, NodeView
from domain.recovery.instructions import CreatePlan
from domain.recovery.machine import IncidentMachine
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from tests.unit.domain.recovery.test_machine import lose, only

PARSERS, WINDOWS = 4, 3
COSTS = {"Parser": 3.2, "O0": 2.6, "O1": 1.9, "O2": 2.3}
WHOLE = PARSERS * COSTS["Parser"] + sum(COSTS[f"O{i}"] for i in range(WINDOWS))
BRIM = 10.01
"""Room for three parsers, or for one and all windows; for two and the smaller windows 10.6 is needed."""


def plan_with(room: float, *, proved: bool = False, running: int = 1) -> CreatePlan:
    """All but one parser ran on node-3, which is lost; two nodes are left with this room each, in CPU
    percent. proved: more than that proved too much before. running: parsers that were on node-1."""
    parsers = (InputSpec(source="Parser"),)
    graph = Topology(
        TopologySpec(
            name="t0",
            operators=(
                OperatorSpec(name="Parser", kind="k", parallelism=PARSERS),
                *(
                    OperatorSpec(name=f"O{i}", kind="k", inputs=parsers, output=True, priority=1)
                    for i in range(WINDOWS)
                ),
            ),
        )
    )
    homes = dict.fromkeys(graph.partitions, "node-3")
    homes |= {f"Parser[{i}]": "node-1" for i in range(running)}
    subject = IncidentMachine(
        number=1,
        deployments={
            "t0": Deployment(
                topology=graph,
                generation=3,
                assignment=homes,
                costs={p: COSTS[p.partition("[")[0]] for p in graph.partitions},
                latest=10,
            )
        },
        nodes={
            f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True, capacity=space / 0.8)
            for i, space in enumerate((room, room, 40.0), start=1)
        },
    )
    if proved:
        subject.memory.limits["t0"] = dict.fromkeys(("node-1", "node-2"), room)
    (plan,) = only(lose(subject, "node-3"), CreatePlan)
    assert isinstance(plan, CreatePlan)
    assert len(plan.assignment) == len(graph.partitions), "all of it fits"
    return plan


def parsers_at_most(plan: CreatePlan) -> int:
    """On one node."""
    nodes = [plan.assignment[f"Parser[{i}]"] for i in range(PARSERS)]
    return max(nodes.count(node) for node in set(nodes))


def test_a_stage_is_spread_where_that_takes_a_little_more_of_a_node() -> None:
    """Within 80 % only three parsers on one node and the rest on the other fit."""
    plan = plan_with(BRIM)
    assert parsers_at_most(plan) == 2
    assert plan.explanation["max_utilisation"] == 0.88
    assert "to 88% of their CPU instead of 80%, so that epochs are shorter." in plan.reason
    room = 1.1 * BRIM
    assert max(plan.explanation["planned_load_percent"].values()) <= room


def test_nodes_with_room_are_not_planned_fuller() -> None:
    plan = plan_with(WHOLE)
    assert parsers_at_most(plan) == 2
    assert plan.explanation["max_utilisation"] == 0.8


@pytest.mark.parametrize("running", [1, 2])
def test_no_node_is_planned_fuller_than_what_proved_enough(running: int) -> None:
    plan = plan_with(BRIM, proved=True, running=running)
    assert max(plan.explanation["planned_load_percent"].values()) <= BRIM


def test_what_runs_stays_where_it_is() -> None:
    plan = plan_with(BRIM, running=2)
    assert {plan.assignment["Parser[0]"], plan.assignment["Parser[1]"]} == {"node-1"}
