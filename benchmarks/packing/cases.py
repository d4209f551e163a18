"""Random problems in which the nodes decide: unequal room, partitions that are large for it, shared upstream.

Costs and rooms are whole hundredths of a percent, so sums are exact in planners and yardsticks alike.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.simulation.cases import fifteen_queries as simulated_fifteen
from domain.planning import NodeSpace, RecoveryProblem, initial_placement, recovery_problem
from domain.simulation.generator import TopologyRecipe, generate_topology
from domain.topology import Topology

# Nodes of a generated system, and how many of them die; replacements come so many seconds later.
NODES, DEAD = 8, 6
DELAY = (120.0, 360.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What to draw. largest: cost of the largest partitions, percent of a node of usual size.

    queries, size, sharing, nodes: ranges, both ends included. busiest: share of its capacity up to which a
    node is busy with what did not fail.
    """

    largest: float
    queries: tuple[int, int] = (5, 10)
    size: tuple[int, int] = (2, 5)
    sharing: tuple[int, int] = (1, 5)
    nodes: tuple[int, int] = (2, 6)
    busiest: float = 0.9


SETTINGS = {
    "partitions up to 20 % of a node": Setting(largest=20.0, queries=(6, 11), size=(3, 6)),
    "partitions up to 60 % of a node": Setting(largest=60.0),
}
LARGER = {
    "20 to 30 queries, up to 20 %": Setting(
        largest=20.0, queries=(20, 30), size=(4, 7), sharing=(2, 6), nodes=(5, 12)
    ),
    "20 to 30 queries, up to 60 %": Setting(
        largest=60.0, queries=(20, 30), size=(3, 5), sharing=(2, 6), nodes=(6, 16)
    ),
}


def drawn(setting: Setting, seed: int) -> RecoveryProblem:
    """Some or all partitions of a generated topology failed; nodes of unequal size and load are offered."""
    rng = random.Random(f"{setting}/{seed}")
    recipe = TopologyRecipe(
        queries=rng.randint(*setting.queries),
        size=rng.randint(*setting.size),
        max_sharing=rng.randint(*setting.sharing),
        priorities=rng.choice(("random", "random", "linear", "equal")),
        costs=(1.0, setting.largest),
    )
    one = generate_topology(recipe, seed)
    lost = rng.choice((1.0, 1.0, 0.7, 0.4))
    failed = {name for name in one.topology.partitions if rng.random() < lost} or {one.topology.queries[0]}
    unequal = rng.random() < 0.5
    nodes = []
    for number in range(rng.randint(*setting.nodes)):
        capacity = rng.choice((50.0, 100.0, 200.0)) if unequal else 100.0
        busy = rng.uniform(0.0, setting.busiest)
        nodes.append(NodeSpace(name=f"node-{number + 1}", capacity=capacity, load=round(capacity * busy, 2)))
    return recovery_problem(one.topology, failed=failed, costs=one.costs, nodes=nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusySystem:
    """Equal nodes, the fullest of which used a given share of its capacity before most of them died.

    costs: CPU percent of each partition. assignment: where it was. capacity: of each node.
    arrivals: seconds after the failure at which replacements come, one for each that died.
    """

    topology: Topology
    costs: dict[str, float]
    assignment: dict[str, str]
    capacity: float
    dead: tuple[str, ...]
    arrivals: tuple[float, ...]

    @property
    def surviving(self) -> dict[str, str]:
        """The partitions that still run, and where."""
        return {name: node for name, node in self.assignment.items() if node not in self.dead}


def fifteen_queries(*, load: float, seed: int) -> BusySystem:
    """The fifteen queries of Figure 12, as `benchmarks.simulation` has them."""
    scenario = simulated_fifteen(load=load)
    (one,) = scenario.topologies
    dead = scenario.failures[0].nodes
    capacities = {node.name: node.capacity for node in scenario.nodes}
    # The two that survive hold what feeds the outputs, and are as busy: nothing of it fails.
    outputs = {partition: node for partition, node in one.assignment.items() if node in dead}
    return BusySystem(
        topology=one.topology,
        costs=dict(one.costs),
        assignment=outputs,
        capacity=capacities[dead[0]],
        dead=tuple(dead),
        arrivals=_arrivals(len(dead), seed),
    )


def generated_queries(*, load: float, seed: int) -> BusySystem:
    """A generated topology spread over eight nodes, of which six die."""
    rng = random.Random(f"busy/{seed}")
    recipe = TopologyRecipe(
        queries=rng.randint(8, 12), size=rng.randint(2, 4), max_sharing=rng.randint(2, 4), priorities="random"
    )
    one = generate_topology(recipe, seed)
    names = [f"node-{number}" for number in range(1, NODES + 1)]
    nodes = [NodeSpace(name=name, capacity=10_000.0) for name in names]
    placed = initial_placement(one.topology, nodes, costs=one.costs)
    return BusySystem(
        topology=one.topology,
        costs=one.costs,
        assignment=placed.assignment,
        capacity=round(max(placed.load.values()) / load, 2),
        dead=tuple(rng.sample(names, DEAD)),
        arrivals=_arrivals(DEAD, seed),
    )


def _arrivals(count: int, seed: int) -> tuple[float, ...]:
    rng = random.Random(f"arrivals/{seed}")
    return tuple(sorted(round(rng.uniform(*DELAY), 1) for _ in range(count)))
