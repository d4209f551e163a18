"""Another version of a topology goes on from the checkpoint that the one before left, with keys in other
partitions: all rows are those of a run without failures."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import structs

from domain.messages import Plan
from domain.topology import load_topology
from domain.topology.continuation import continuation
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.loop import MakeWayError
from spark_jobs.operators.catalogue import OperatorCatalogue
from tests.examples import examples
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World
from tests.simulation.test_engine import coordinate, live
from tests.simulation.test_engine_savepoints import KINDS, Kind, Rows, clean_run, made

SCHEDULES: Final = 16
LIVES: Final = 3
TRIES: Final = 60
TURNS: Final = 12
"""Of a driver that works, before the topology is undeployed."""


def committed(world: World) -> int:
    log = EpochLog(world.root / "topologies" / "t" / "epochs.log", force=False)
    try:
        return log.committed
    finally:
        log.close()


def undeploy(world: World) -> int:
    """Some drivers live and die; one that works leaves a checkpoint of all that is final, whose epoch is
    returned."""
    for _ in range(LIVES):
        drive(world, steps=world.random.choice([30, 60, 100]))
        coordinate(world)
    world.failing = False

    def turning() -> None:
        """In the middle of a life it is undeployed."""
        world.turns += 1
        if world.turns > TURNS:
            world.desired = "stopped"

    world.turning = turning
    for _ in range(TRIES):
        world.turns, world.desired = 0, "running"
        drive(world, steps=200)
        newest = world.latest
        if world.desired == "stopped" and newest is not None and newest.checkpoint == committed(world) > 0:
            world.turning = lambda: None
            return newest.checkpoint
        coordinate(world)
    raise AssertionError("no driver left a checkpoint of all that is final")


def go_on(world: World, kind: Kind, seed: int, parallelism: Mapping[str, int]) -> None:
    """Version 2 is deployed, on nodes that have the states of version 1."""
    checkpoint, before = undeploy(world), world.plan
    assert before is not None
    later = kind.new_world(made(world.root / "another"), seed, parallelism=parallelism).topology
    # Both read the same input, whose path is a parameter of the source.
    spec: dict[str, Any] = {**later.to_data()}
    spec["operators"] = [dict(one) for one in spec["operators"]]
    sources = {one.name: one.params for one in world.topology.sources}
    for one in spec["operators"]:
        one["params"] = sources.get(one["name"], one["params"])
    catalogue = OperatorCatalogue(world.modules)
    topology = load_topology(spec, catalogue)
    found = continuation(world.topology, topology, catalogue)
    assert found.problems == ()
    assert set(found.divided) == set(parallelism)
    world.topology, world.computation, world.desired = topology, 2, "running"
    nodes = sorted(world.nodes)
    world.plan = Plan(
        generation=before.generation + 1,
        kind="restore",
        rollback=True,
        deployed=1,
        checkpoint=checkpoint,
        divided=list(found.divided),
        stateless=list(found.added),
        assignment={p: world.random.choice(nodes) for p in topology.partitions},
        restore=list(topology.partitions),
    )
    world.failing = True


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    return {name: clean_run(kind, tmp_path_factory.mktemp(name)) for name, kind in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_keys_are_in_other_partitions_than_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, Rows], name: str
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    kind = KINDS[name]
    for seed in range(examples(SCHEDULES)):
        world = kind.new_world(made(tmp_path / str(seed)), seed)
        world.computation = 1
        go_on(world, kind, seed, random.Random(seed).choice([one for one in kind.others if one]))
        live(world)
        assert kind.rows(world.root) == expected[name], f"seed {seed}"


@pytest.mark.parametrize("generation", [0, 1])
def test_a_driver_that_missed_the_end_of_its_version_does_not_go_on_as_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation: int
) -> None:
    """It was frozen meanwhile, before it had adopted a plan, or later. The next version is another
    deployment, or goes on from a checkpoint."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = KINDS["acyclic"].new_world(made(tmp_path / "world"), 3)
    world.failing, world.computation = False, 1
    before = world.plan
    assert before is not None

    def turning() -> None:
        if generation == 0:
            world.computation, world.plan = 2, structs.replace(before, generation=2, deployed=2)
        elif world.latest is not None and world.latest.checkpoint >= 10:
            checkpoint = world.latest.checkpoint
            world.computation = 2
            world.plan = structs.replace(
                before, generation=2, kind="restore", rollback=True, checkpoint=checkpoint
            )

    world.turning = turning
    with pytest.raises(MakeWayError):
        drive(world, steps=20_000)
    log = EpochLog(world.root / "topologies" / "t" / "epochs.log")
    assert (log.computation, log.generation, log.deployed) == (generation,) * 3
    log.close()
