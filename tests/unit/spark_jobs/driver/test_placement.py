"""When tasks are pinned anew, and when the tokens that are there do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from domain.messages import Plan
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
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


@dataclass
class Addresses:
    addresses: dict[str, str] = field(default_factory=lambda: {node: f"@{node}" for node in NODES})
    plan: Plan | None = None

    def gone_addresses(self) -> set[str]:
        return set()


def executors(*nodes: str, life: int = 1) -> frozenset[Executor]:
    return frozenset(Executor(f"{node}{life}", f"@{node}") for node in nodes)


def placement_on(*nodes: str) -> tuple[TaskPlacement, PinnedCluster]:
    cluster: Any = PinnedCluster(executors(*nodes))
    channel: Any = Addresses()
    placement = TaskPlacement(
        TOPOLOGY, cluster=cluster, coordination=channel, clock=lambda: 0.0, outputs="", checkpoint_url="",
        modules=[], masked=[], force=True,
    )  # fmt: skip
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
