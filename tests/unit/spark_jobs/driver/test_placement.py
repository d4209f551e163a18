"""When tasks are pinned anew, when the tokens that are there do, and which nodes are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from domain.execution.instructions import HandOver
from domain.execution.job import Handover, Layout, PartitionReport, TaskReport
from domain.messages import Plan
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from host import environment
from spark_jobs.driver.cluster import Executor
from spark_jobs.driver.placement import TaskPlacement

TOPOLOGY = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="S", kind="k", parallelism=3),
            OperatorSpec(name="O", kind="k", inputs=(InputSpec(source="S"),), output=True),
        ),
    )
)
NODES = ("a", "b", "c")


@dataclass
class PinnedCluster:
    """Counts what was pinned; tokens for more executors are there once `made`."""

    known: frozenset[Executor]
    made: bool = False
    pins: list[list[str]] = field(default_factory=list)
    given_up: frozenset[Executor] = frozenset()
    failing: dict[str, str] = field(default_factory=dict)
    """Partition -> why its state is not handed over."""

    def executors(self) -> frozenset[Executor]:
        return self.known

    def ready(self, executors: frozenset[Executor]) -> frozenset[Executor]:
        return executors

    def pin(self, addresses: list[str], obsolete: Callable[[], bool]) -> None:
        self.pins.append(addresses)

    def pinned(self, addresses: list[str]) -> bool:
        return bool(self.pins) and self.pins[-1] == addresses

    def prepared(self, addresses: list[str]) -> bool:
        return self.made

    def give_up(self, executors: frozenset[Executor]) -> None:
        self.given_up = executors

    def hand_over(self, layout: Layout, handover: Handover, obsolete: Callable[[], bool]) -> list[TaskReport]:
        reports = {
            partition: PartitionReport(epoch=epoch, error=self.failing.get(partition, ""))
            for partition, epoch in handover.epochs.items()
        }
        return [TaskReport(slot=0, level=1, node="a", partitions=reports)]


@dataclass
class Addresses:
    addresses: dict[str, str] = field(default_factory=lambda: {node: f"@{node}" for node in NODES})
    plan: Plan | None = None
    gone: set[str] = field(default_factory=set)

    def gone_addresses(self) -> set[str]:
        return self.gone


def executors(*nodes: str, life: int = 1) -> frozenset[Executor]:
    return frozenset(Executor(f"{node}{life}", f"@{node}") for node in nodes)


def placement_on(*nodes: str, told: Addresses | None = None) -> tuple[TaskPlacement, PinnedCluster]:
    cluster: Any = PinnedCluster(executors(*nodes))
    channel: Any = told or Addresses()
    placement = TaskPlacement(
        TOPOLOGY, cluster=cluster, coordination=channel, clock=lambda: 0.0, settings=environment.read({})
    )
    return placement, cluster


def plan(generation: int, nodes: str = "abc") -> Plan:
    homes = {"S[0]": "a", "S[1]": "b", "S[2]": "c", "O[0]": "a"}
    assignment = {partition: node for partition, node in homes.items() if node in nodes}
    return Plan(generation=generation, kind="recover", assignment=assignment)


def follow(placement: TaskPlacement, told: Plan) -> set[str] | None:
    placement.prepare()
    return placement.follow(told, {}, placement.topology)


def test_another_plan_on_the_same_nodes_needs_no_other_tokens() -> None:
    placement, cluster = placement_on(*NODES)
    assert follow(placement, plan(1)) == set()
    placement.look_again(trusted=True)
    assert follow(placement, plan(2)) == set()
    assert cluster.pins == [["@a", "@b", "@c"]]
    assert placement.layout is not None
    assert placement.layout.generation == 2


@pytest.mark.parametrize("restarted", [False, True])
def test_tokens_are_made_anew_where_they_may_be_gone(restarted: bool) -> None:
    placement, cluster = placement_on(*NODES)
    follow(placement, plan(1))
    if restarted:
        cluster.known = executors("a", "b") | executors("c", life=2)
    placement.look_again(trusted=restarted)
    follow(placement, plan(2))
    assert cluster.pins == [["@a", "@b", "@c"]] * 2


def test_an_executor_that_gets_ready_is_used_when_its_tokens_are_there() -> None:
    placement, cluster = placement_on("a", "b")
    assert follow(placement, plan(1)) == {"S[2]"}
    cluster.known = executors(*NODES)
    assert follow(placement, plan(1)) is None
    assert not placement.outdated(plan(1)), "a replay under way goes on"
    cluster.made = True
    assert placement.outdated(plan(1))
    assert follow(placement, plan(1)) == set()
    assert cluster.pins == [["@a", "@b"], ["@a", "@b", "@c"]]


def test_nothing_waits_for_tokens_where_an_executor_is_gone() -> None:
    placement, cluster = placement_on("a", "b")
    follow(placement, plan(1))
    cluster.known = executors("a", "c")
    assert follow(placement, plan(1)) == {"S[1]"}
    assert cluster.pins[-1] == ["@a", "@c"]


def test_a_plan_that_takes_more_nodes_waits_for_nothing() -> None:
    placement, cluster = placement_on(*NODES)
    assert follow(placement, plan(1, nodes="ab")) == {"S[2]"}
    placement.look_again(trusted=True)
    assert follow(placement, plan(2)) == set()
    assert cluster.pins == [["@a", "@b"], ["@a", "@b", "@c"]]


def test_a_node_that_is_gone_gets_no_task_although_spark_waits_for_its_executor() -> None:
    told = Addresses()
    placement, cluster = placement_on(*NODES, told=told)
    follow(placement, plan(1))
    assert not placement.forsaken()
    told.gone = {"@c"}
    assert placement.forsaken()
    assert placement.follow(plan(1), {}, TOPOLOGY) == {"S[2]"}, "since executors were looked at last"
    placement.prepare()
    assert placement.ready(plan(1)) == {"a", "b"}
    assert cluster.given_up == executors("c")
    assert cluster.pins[-1] == ["@a", "@b"]


def test_an_executor_that_has_gone_since_it_was_looked_at_gets_no_task() -> None:
    placement, cluster = placement_on(*NODES)
    placement.prepare()
    cluster.known = executors("a", "b")
    assert placement.follow(plan(1), {}, TOPOLOGY) == {"S[2]"}


def test_a_doubt_stays_until_tokens_are_made_anew() -> None:
    placement, cluster = placement_on(*NODES)
    follow(placement, plan(1))
    placement.look_again(trusted=False)
    placement.look_again(trusted=True)
    follow(placement, plan(2))
    assert cluster.pins == [["@a", "@b", "@c"]] * 2


def test_a_driver_works_on_the_deployment_that_it_began_with() -> None:
    told = Addresses(plan=Plan(generation=4, kind="recover", assignment={}, deployed=3))
    placement, _ = placement_on(*NODES, told=told)
    assert placement.deployed == 3
    told.plan = Plan(generation=9, kind="deploy", assignment={})
    follow(placement, plan(4))
    assert placement.layout is not None
    assert placement.layout.deployed == 3


def test_only_what_has_arrived_counts_as_handed_over() -> None:
    placement, cluster = placement_on("a", "b")
    cluster.failing = {"S[1]": "no room"}
    moved = Plan(generation=2, kind="move", assignment={"S[0]": "b", "S[1]": "a", "S[2]": "c", "O[0]": "a"})
    told = HandOver(
        plan=moved,
        sources={"S[0]": "a", "S[1]": "b", "S[2]": "a", "O[0]": "c"},
        epochs=dict.fromkeys(TOPOLOGY.partitions, 7),
        since=5,
        attempt=0,
    )
    placement.prepare()
    assert placement.hand_over(told, {}) == {"S[0]"}, "the nodes of S[2] and O[0] are not there"
