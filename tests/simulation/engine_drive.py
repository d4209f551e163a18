"""One driver of the engine in a played world: the real epoch loop, log, planner, checkpoints and sink."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from domain.execution.checkpoints import Checkpoints, complete_checkpoints
from domain.topology.spec import ParquetSinkSpec
from spark_jobs.driver.assembly import open_log
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.driver.retention import Retention
from spark_jobs.sinks.parquet_sink import ParquetSink
from tests.simulation.engine_cluster import PlayedCluster
from tests.simulation.engine_coordination import PlayedCoordination
from tests.simulation.engine_world import DriverKilledError, World


def drive(world: World, *, steps: int) -> str:
    """Run one driver until it completes, is killed (then "killed") or has done `steps` steps."""
    coordination: Any = PlayedCoordination(world)
    stop = threading.Event()
    left = [steps]

    def clock() -> float:
        world.now += 0.05
        left[0] -= 1
        if left[0] < 0:
            stop.set()
        return world.now

    installation: Any = SimpleNamespace(
        home=world.root,
        outputs=str(world.root / "outputs"),
        checkpoints=world.checkpoints,
        operator_modules=world.modules,
        mask_columns=(),
        force=world.force,
    )
    try:
        log = open_log(installation, world.topology, coordination, clock)
    except (DriverKilledError, ConnectionError):
        return "killed"
    planner = EpochPlanner(
        topology=world.topology, log=log, home=world.root, modules=world.modules, clock=clock
    )
    planner.prepare(world.messages.append)
    url = world.checkpoints
    retention = Retention(url=url, topology="t", partitions=world.topology.partitions)
    cluster: Any = PlayedCluster(world)
    sink = ParquetSink(
        world.root / "outputs",
        "t",
        ParquetSinkSpec(compact_s=3 * world.topology.spec.epoch_interval),
        operators=[operator.name for operator in world.topology.outputs],
        epoch_interval=world.topology.spec.epoch_interval,
        force=world.force,
    )
    checkpoints = Checkpoints(
        topology="t",
        partitions=world.topology.partitions,
        interval=1.5,
        since=clock(),
        kept=complete_checkpoints(world.latest),
        highest=world.latest.highest if world.latest else 0,
    )
    loop = EpochLoop(
        topology=world.topology,
        coordination=coordination,
        cluster=cluster,
        epoch_log=log,
        planner=planner,
        send=world.messages.append,
        checkpoints=checkpoints,
        retention=retention,
        sink=sink,
        settings=installation,
        clock=clock,
        stop=stop,
    )
    try:
        return loop.run()
    except (DriverKilledError, RuntimeError):
        return "killed"
    finally:
        log.close()
        retention.close()
        sink.close()
