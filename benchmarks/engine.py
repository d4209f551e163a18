"""A real data plane for benchmarks: ZooKeeper, Redis, a Spark cluster of local nodes, and one epoch loop."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from coordination.paths import Paths
from coordination.session import Session
from domain.messages import DeployedSpec, Plan
from domain.planning import NodeSpace, initial_placement
from domain.topology import Topology, load_topology, load_yaml
from host import environment
from spark_jobs.driver.__main__ import prepare_spark_environment
from spark_jobs.driver.assembly import epoch_loop
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.sources.sample import sample_write
from supervision.data_plane import DataPlane

NODES = 4
PIPELINE = Path(__file__).parents[1] / "spark_jobs" / "pipelines" / "hashtags.yaml"


def hashtags(*, source: dict[str, Any], **settings: Any) -> Topology:
    """The pipeline of the main job with other source parameters and topology settings."""
    data = load_yaml(PIPELINE.read_text(encoding="utf-8"))
    data.update(settings)
    data["operators"][0]["params"] |= source
    return load_topology(data, catalogue)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A loop that has adopted its first plan, and what puts further plans into ZooKeeper."""

    loop: EpochLoop
    plan_publish: Callable[[Plan], None]


@contextmanager
def running(topology: Topology, *, nodes: int = NODES) -> Iterator[EpochLoop]:
    """Start everything in a temporary directory, adopt the first plan, and end everything afterwards."""
    with deployed(topology, nodes=nodes) as deployment:
        yield deployment.loop


@contextmanager
def deployed(
    topology: Topology, *, nodes: int, assignment: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """The same. assignment: partition -> node; None: evenly."""
    logging.basicConfig(level=logging.WARNING)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="resurge-benchmark-", ignore_cleanup_errors=True) as name:
        plane = DataPlane(Path(name))
        try:
            plane.start(nodes=nodes)
            os.environ.update(plane.environment)
            settings = environment.read()
            prepare_spark_environment()
            sample_write(settings.home / "input" / "sample.parquet")
            coordination = TopologyChannel(
                topology=topology.name,
                hosts=settings.zookeeper,
                secret=settings.zookeeper_secret,
                session_timeout=settings.session_timeout,
            )
            coordination.connect()
            _deploy(settings, topology, assignment or evenly(topology, nodes))
            coordination.refresh(force=True)
            stop = threading.Event()
            with epoch_loop(
                topology=topology,
                settings=settings,
                coordination=coordination,
                send=lambda message: None,
                stop=stop,
                executor_memory="1g",
            ) as loop:
                while loop.state not in ("running", "replaying"):
                    loop.iterate()
                yield Deployment(loop, partial(_plan_publish, settings, topology))
            coordination.close()
        finally:
            plane.stop()


def evenly(topology: Topology, nodes: int) -> dict[str, str]:
    """Partition -> node."""
    names = [NodeSpace(name=f"node-{number}") for number in range(1, nodes + 1)]
    return dict(initial_placement(topology, names).assignment)


def _deploy(settings: environment.Environment, topology: Topology, assignment: Mapping[str, str]) -> None:
    spec = DeployedSpec(name=topology.name, version=1, spec=topology.to_data())
    with _zookeeper(settings) as session:
        session.put(Paths.spec(topology.name), spec)
    _plan_publish(settings, topology, Plan(generation=1, kind="deploy", assignment=dict(assignment)))


def _plan_publish(settings: environment.Environment, topology: Topology, plan: Plan) -> None:
    with _zookeeper(settings) as session:
        session.put(Paths.plan(topology.name), plan)


@contextmanager
def _zookeeper(settings: environment.Environment) -> Iterator[Session]:
    with closing(Session(settings.zookeeper, 4.0, secret=settings.zookeeper_secret)) as session:
        session.start()
        session.require_connected(30)
        yield session


def advance(loop: EpochLoop, epochs: int) -> int:
    """Iterate until `epochs` more epochs are committed; returns the number of their tuples."""
    first = loop.log.committed
    slices: dict[int, int] = {}
    while loop.log.committed < first + epochs:
        for epoch, plan in loop.log.plans.items():
            slices[epoch] = sum(end["tuple"] - start["tuple"] for start, end in plan.slices.values())
        loop.iterate()
    for epoch, plan in loop.log.plans.items():
        slices[epoch] = sum(end["tuple"] - start["tuple"] for start, end in plan.slices.values())
    return sum(slices.get(epoch, 0) for epoch in range(first + 1, loop.log.committed + 1))
