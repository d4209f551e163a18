"""The systems that fail: the fifteen queries of Figure 9, and generated topologies of any size."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import msgspec
import yaml

from domain.planning import NodeSpace, initial_placement, place
from domain.simulation.generator import TopologyRecipe, generate_topology
from domain.simulation.scenario import Failure, Scenario, SimulatedNode, SimulatedTopology
from domain.topology import Topology, TopologySpec

PIPELINE = Path(__file__).parents[2] / "spark_jobs" / "pipelines" / "hashtags.yaml"
NODES, DEAD = 10, 8

# CPU of one partition, percent of what all take together: the profile in docs/experiments/engine.md, with
# sinks and state divided over the fifteen outputs.
COSTS = {"source": 1.5, "flat_map_regex": 6.25, "sliding_window": 7.6, "latest": 3.5}


def hashtags() -> Topology:
    """The ready-made pipeline `hashtags`."""
    return Topology(msgspec.convert(yaml.safe_load(PIPELINE.read_text(encoding="utf-8")), TopologySpec))


def fifteen_queries(*, load: float, seed: int = 0) -> Scenario:
    """Sources and parsers on two nodes, the fifteen outputs on eight others, which die (Figure 12).

    load: share of its capacity that the fullest of the eight used before the failure; they are equally large.
        The two are as large as makes them used as much.
    """
    graph = hashtags()
    costs = {partition: COSTS[graph.operator_of(partition).kind] for partition in graph.partitions}
    names = [f"node-{i}" for i in range(1, NODES + 1)]
    upstream = [p for p in graph.partitions if not graph.operator_of(p).output]
    first = place(partitions=upstream, nodes=[_space(n) for n in names[: NODES - DEAD]], costs=costs)
    rest = place(partitions=graph.queries, nodes=[_space(n) for n in names[NODES - DEAD :]], costs=costs)
    used = {**first.load, **dict.fromkeys(rest.load, max(rest.load.values()))}
    return Scenario(
        topologies=(
            SimulatedTopology(
                topology=graph, assignment={**first.assignment, **rest.assignment}, costs=costs
            ),
        ),
        nodes=tuple(SimulatedNode(name=name, capacity=used[name] / load) for name in names),
        failures=(Failure(nodes=tuple(names[NODES - DEAD :])),),
        seed=seed,
    )


def generated(
    *,
    topologies: int,
    queries: int,
    size: int,
    nodes: int,
    dead: int,
    load: float,
    seed: int = 0,
    max_sharing: int = 6,
) -> Scenario:
    """Generated topologies spread over equal nodes, some of which, drawn from the seed, die together."""
    recipe = TopologyRecipe(queries=queries, size=size, max_sharing=max_sharing)
    drawn = [generate_topology(replace(recipe, name=f"t{k}"), 1_000 * seed + k) for k in range(topologies)]
    total = sum(sum(one.costs.values()) for one in drawn)
    capacity = total / nodes / load
    loads = {f"node-{i}": 0.0 for i in range(1, nodes + 1)}
    placed = []
    for one in drawn:
        spaces = [NodeSpace(name=name, capacity=capacity, load=used) for name, used in loads.items()]
        placement = initial_placement(one.topology, spaces, costs=one.costs)
        if placement.unplaced:
            raise ValueError(f"{len(placement.unplaced)} partitions do not fit; lower the load of {load:g}")
        loads = placement.load
        placed.append(
            SimulatedTopology(topology=one.topology, assignment=placement.assignment, costs=one.costs)
        )
    victims = random.Random(seed).sample(sorted(loads), dead)
    return Scenario(
        topologies=tuple(placed),
        nodes=tuple(SimulatedNode(name=name, capacity=capacity) for name in loads),
        failures=(Failure(nodes=tuple(victims)),),
        seed=seed,
    )


def _space(name: str) -> NodeSpace:
    return NodeSpace(name=name, capacity=1_000.0)
