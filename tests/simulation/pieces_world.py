"""The incident world with room in pieces: partitions differ in size, replacements are small and few. What
runs has to make room for what is down. Run many schedules with `python -m tests.simulation.pieces_world
--count 1000`, with `--exact` with the data plane."""

from __future__ import annotations

import argparse
import random
import sys

from domain.recovery.events import NodeArrived
from domain.recovery.policy import RecoveryPolicy
from tests.simulation.exact_world import ExactWorld
from tests.simulation.incident_graphs import branches
from tests.simulation.incident_schedules import check, check_ended
from tests.simulation.incident_world import World
from tests.simulation.many_seeds import run_seeds

SMALL = (15.0, 25.0, 35.0)
"""CPU percent that nodes offer that join."""
FEW, MUCH = (3.0, 12.0), (25.0, 40.0)
"""CPU percent that partitions take."""
LOSSES = ("kill", "kill", "kill", "partitions_lost", "drain")
COURSE = (
    "detect", "step", "publish", "deliver", "deliver", "drive", "step", "small_node", "step", "approve",
    "step", "publish", "deliver", "deliver", "deliver", "drive", "drive", "step", "time", "step", "publish",
    "deliver", "deliver", "deliver", "drive", "drive", "step",
)  # fmt: skip
BETWEEN = (
    "small_node", "small_node", "arrive", "request_fail", "reuse_name", "return", "restart_driver",
    "activate", "approve", "park", "unpark", "rebalance", "pause", "resume", "resume", "time", "capacity",
    "checkpoint", "kill", "redeploy",
)  # fmt: skip


class PiecesWorld(World):
    """Nodes that join are small."""

    def do_small_node(self, rng: random.Random) -> None:
        node = f"node-{len(self.nodes) + 1}"
        self.nodes[node], self.capacity[node] = True, rng.choice(SMALL)
        self.feed(NodeArrived(at=self.now, node=node), may_plan=False)

    def do_arrive(self, rng: random.Random) -> None:
        self.arrive(rng, size=rng.choice([0.1, 0.2, 0.3]))


class ExactPieces(PiecesWorld, ExactWorld):
    """With the data plane: every output is compared with that of a clean run."""


def pieces_world_of(seed: int, kind: type[PiecesWorld]) -> PiecesWorld:
    """Topologies, policies and the sizes of partitions drawn from the seed."""
    rng = random.Random(f"pieces-{seed}")
    nodes = rng.randint(3, 6)
    graphs = [branches("t0", rng.randint(2, 4), deterministic=rng.random() < 0.9)]
    if rng.random() < 0.5:
        graphs.append(branches("t1", rng.randint(2, 3)))
    policies = tuple(
        RecoveryPolicy(
            method=rng.choice(["auto", "auto", "incremental", "blocking"]),
            planner=rng.choice(["best_density", "best_density", "adaptive_density", "look_ahead", "optimal"]),
            approval=rng.choice(["automatic", "automatic", "automatic", "automatic", "approve"]),
            rollback=rng.choice(["ancestors", "ancestors", "ancestors", "global"]),
            rebalancing=rng.choice(["automatic", "automatic", "automatic", "manual"]),
        )
        for _ in graphs
    )
    world = kind(nodes=nodes, graphs=tuple(graphs), policies=policies, seed=seed)
    used = dict.fromkeys(world.nodes, 0.0)
    for run in world.runs.values():
        run.costs = {p: rng.uniform(*rng.choice([FEW, FEW, MUCH])) for p in run.graph.partitions}
        run.priorities = {query: rng.randint(1, 10) for query in run.graph.queries}
        for partition, node in run.driver.running.items():
            used[node] += run.costs[partition]
    for node in world.nodes:
        world.capacity[node] = max(used[node] / rng.uniform(0.45, 0.78), 60.0)
    world.replay_reserve = rng.choice([1.0, 1.0, 1.0, 1.6])
    return world


def run_pieces(seed: int, *, kind: type[PiecesWorld] = PiecesWorld) -> PiecesWorld:
    """Nodes are lost, and the recovery goes its course between other events; raises AssertionError if a rule
    does not hold."""
    world = pieces_world_of(seed, kind)
    rng = random.Random(f"pieces-schedule-{seed}")
    for _ in range(rng.randint(1, 4)):
        course = [*rng.choices(LOSSES, k=rng.randint(1, 3)), *COURSE * rng.randint(1, 3)]
        for action in course:
            world.act(action, rng.randrange(10_000))
            check(world)
            if rng.random() < 0.1:
                world.act(rng.choice(BETWEEN), rng.randrange(10_000))
                check(world)
    world.settle()
    check(world)
    check_ended(world)
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--exact", action="store_true", help="with the data plane")
    given = parser.parse_args()
    kind = ExactPieces if given.exact else PiecesWorld

    def counted(seed: int) -> dict[str, int]:
        world = run_pieces(seed, kind=kind)
        return {**world.counts, "incidents": len(world.incidents)}

    _, failing = run_seeds(counted, count=given.count, first=given.first)
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
