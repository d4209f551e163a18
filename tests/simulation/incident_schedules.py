"""Random schedules for the incident world: `python -m tests.simulation.incident_schedules --count 3000`. With
`--interrupted`, recoveries during which more nodes fail."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from domain.recovery.incident import ENDED_STATES
from domain.recovery.policy import RecoveryPolicy
from tests.simulation.incident_graphs import PLANNERS, branches, topology
from tests.simulation.incident_world import World
from tests.simulation.many_seeds import run_seeds

W = TypeVar("W", bound=World)

ACTIONS = (
    "kill", "kill", "kill", "detect", "return", "arrive", "arrive", "arrive", "reuse_name", "extra",
    "request_start", "request_fail", "time", "publish", "publish", "step", "step", "step", "deliver",
    "deliver", "deliver", "drive", "drive", "drive", "restart_driver", "checkpoint", "recover_now",
    "redeploy", "drain", "partitions_lost", "pause", "resume", "resume", "approve", "approve", "replan",
    "abort", "priorities", "policy",
)  # fmt: skip

WITH_MOVES = (*ACTIONS, "rebalance", "rebalance", "rebalance", "drain")
WITH_PARKING = (*ACTIONS, "park", "park", "unpark", "rebalance")
WITH_DRAINS = (*WITH_PARKING, "drain", "drain", "activate", "activate", "activate")
WITH_CHANGES = (*WITH_DRAINS, "redeploy_changed", "redeploy_changed", "redeploy_changed")
WITH_ALL = (*WITH_CHANGES, "leave", "leave", "return", "policies", "policies", "capacity", "capacity")

INTERRUPTIONS = (
    "kill", "kill", "kill", "kill", "return", "return", "reuse_name", "drain", "partitions_lost",
    "recover_now", "replan", "redeploy", "restart_driver",
)  # fmt: skip

# What happens, in this order, while nothing interrupts a recovery.
COURSE = (
    "detect", "arrive", "arrive", "arrive", "step", "approve", "step", "publish", "deliver", "deliver",
    "deliver", "deliver", "deliver", "deliver", "drive", "drive", "step", "drive", "drive", "drive", "step",
    "checkpoint",
)  # fmt: skip


def world_of(seed: int, kind: type[W]) -> W:
    """Topologies, policies, costs and capacities drawn from the seed."""
    rng = random.Random(seed)
    nodes = rng.randint(2, 6)
    graphs = (
        branches("t0", rng.randint(2, 4), deterministic=rng.random() < 0.75),
        rng.choice([topology("t1", 2), branches("t1", 2)]),
    )
    policies = tuple(
        RecoveryPolicy(
            method=rng.choice(["auto", "auto", "auto", "incremental", "blocking"]),
            planner=rng.choice(PLANNERS),
            rollback=rng.choice(["ancestors", "global"]),
            approval=rng.choice(["automatic", "automatic", "approve"]),
            correlation_threshold=rng.choice([1, 2, 2, 2, 3]),
            correlation_window=rng.choice([0.0, 10.0, 10.0, 1e9]),
        )
        for _ in graphs
    )
    capacities = tuple(rng.choice([40.0, 100.0, 160.0]) for _ in range(nodes))
    return kind(
        nodes=nodes,
        graphs=graphs,
        policies=policies,
        costs=rng.choice([0.0, 30.0, 60.0, 90.0]),
        capacities=capacities,
        seed=seed,
    )


def check(world: World) -> None:
    """Rules for any moment, besides those that the store checks at every step."""
    for name, run in world.runs.items():
        assert run.generations_seen == sorted(set(run.generations_seen)), "generation in force went back"
        assert run.driver.applied == sorted(set(run.driver.applied)), "a generation was applied twice"
        generations = [plan.generation for plan in world.plans if plan.topology == name]
        assert len(generations) == len(set(generations)), "two plans of one generation"
        current = [p for p in world.plans if p.topology == name and p.state in ("planned", "published")]
        assert len(current) <= 1, "two plans under way for one topology"


def check_ended(world: World) -> None:
    assert all(state in ENDED_STATES for state in world.incidents.values()), world.incidents
    for name, run in world.runs.items():
        assert not world.absent(name), f"{name} still has absent partitions"
        assert not run.driver.behind, f"{name} has not caught up"
        assert run.in_force is not None
        assert set(run.in_force.assignment) == set(run.graph.partitions)


def run_schedule(
    seed: int, *, length: int = 60, kind: type[World] = World, actions: Sequence[str] = ACTIONS
) -> World:
    """Run the schedule of this seed; raises AssertionError if a rule does not hold."""
    world = world_of(seed, kind)
    rng = random.Random(f"schedule-{seed}")
    for _ in range(rng.randint(5, length)):
        world.act(rng.choice(actions), rng.randrange(10_000))
        check(world)
    world.settle()
    check(world)
    check_ended(world)
    return world


def run_interrupted(seed: int, *, kind: type[World] = World) -> World:
    """A recovery that proceeds and is interrupted repeatedly, so that failures happen in every phase."""
    world = world_of(seed, kind)
    rng = random.Random(f"interrupted-{seed}")
    for _ in range(rng.randint(3, 12)):
        world.act(rng.choice(INTERRUPTIONS), rng.randrange(10_000))
        check(world)
        course = COURSE * rng.randint(1, 2)
        for action in course[: rng.randint(1, len(course))]:
            world.act(action, rng.randrange(10_000))
            check(world)
    world.settle()
    check(world)
    check_ended(world)
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--interrupted", action="store_true")
    parser.add_argument("--moves", action="store_true", help="operators move what runs, too")
    parser.add_argument("--parking", action="store_true", help="queries are parked and return, too")
    parser.add_argument("--drains", action="store_true", help="drained nodes are used again, too")
    parser.add_argument("--changes", action="store_true", help="besides, topologies are changed")
    parser.add_argument("--all", action="store_true", help="besides, whole policies and capacities change")
    given = parser.parse_args()
    actions: Sequence[str] = WITH_PARKING if given.parking else WITH_MOVES if given.moves else ACTIONS
    actions = (
        WITH_ALL if given.all else WITH_CHANGES if given.changes else WITH_DRAINS if given.drains else actions
    )
    run = run_interrupted if given.interrupted else partial(run_schedule, actions=actions)

    def counted(seed: int) -> dict[str, int]:
        world = run(seed)
        return {**world.counts, "incidents": len(world.incidents)}

    _, failing = run_seeds(counted, count=given.count, first=given.first)
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
