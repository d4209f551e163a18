"""The whole engine in one process: the real epoch loop, tasks, state, log, checkpoints and sinks. Only Spark,
ZooKeeper and the agents' uploads are simulated. One seed decides which failures happen when."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, settings

from domain.messages import CheckpointAck, DriverStatus, LatestCheckpoint, Plan, Telemetry
from domain.topology import Topology, load_topology
from spark_jobs.agent.uploads import Uploader, newest_snapshots
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.state.checkpoint_storage import CheckpointStorage
from tests.examples import examples


def schedules(count: int) -> settings:
    """Seeds of schedules, a part of `count` (`examples`). A failing seed is not shrunk, since a smaller
    number is no simpler schedule."""
    return settings(
        max_examples=examples(count),
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


class DriverKilledError(BaseException):
    """SIGKILL of the driver: no statement after it runs."""


def sources(source: Path, limit: int) -> list[dict[str, Any]]:
    """What pipelines begin with: two partitions that read, and a parser behind each."""
    return [
        {
            "name": "S",
            "kind": "source",
            "parallelism": 2,
            "params": {"path": str(source), "rate": 10, "limit": limit, "pace": "fast"},
        },
        {
            "name": "P",
            "kind": "flat_map_regex",
            "parallelism": 2,
            "inputs": [{"from": "S", "partitioning": "one_to_one"}],
            "params": {"pattern": r"#(\w+)"},
        },
    ]


def pipeline(source: Path, limit: int, parallelism: Mapping[str, int] | None = None) -> Topology:
    """Two sources' partitions, two windows, a view of both and a keyed one with two partitions. parallelism:
    of operators that have another one."""
    other = parallelism or {}

    def operator(name: str, kind: str, inputs: list[str], **more: Any) -> dict[str, Any]:
        streams = [{"from": name, "partitioning": "full"} for name in inputs]
        fields = {**more, **({"parallelism": other[name]} if name in other else {})}
        return {"name": name, "kind": kind, "inputs": streams, "output": True, **fields}

    return load_topology(
        {
            "name": "t",
            "max_epoch_tuples": 20,
            "catch_up_epochs": 4,
            "operators": [
                *sources(source, limit),
                operator("A", "sliding_window", ["P"], params={"size_s": 6, "slide_s": 3}),
                operator("B", "sliding_window", ["P"], params={"size_s": 4, "slide_s": 4}, parallelism=2),
                operator("V", "latest", ["A"]),
                operator("W", "latest", ["A"]),
            ],
        },
        catalogue,
    )


def write_input(path: Path, rows: int = 97) -> None:
    words = random.Random(5)
    texts = [f"#{words.choice('abcde')} x #{words.choice('abc')}" for _ in range(rows)]
    pq.write_table(pa.table({"text": texts}), path)


@dataclass
class World:
    """Everything outside the driver: nodes with disks, ZooKeeper's values, the checkpoint storage."""

    root: Path
    topology: Topology
    random: random.Random
    nodes: dict[str, str] = field(default_factory=dict)
    # Not registered any more and silent, but Spark still lists their executors.
    frozen: dict[str, str] = field(default_factory=dict)
    freezing: bool = False
    # Whose functions the topology may name.
    modules: list[str] = field(default_factory=list)
    plan: Plan | None = None
    latest: LatestCheckpoint | None = None
    now: float = 1_000_000.0
    count: int = 0
    jobs: int = 0
    # Jobs that ran while others were replaying, and replays that were ended early.
    beside: int = 0
    replays_ended: int = 0
    unheard: int = 0
    handed_over: int = 0
    # Partitions whose buffers a node sent that they had left, summed over jobs.
    sent_elsewhere: int = 0
    # Called before each turn of the driver: the coordinator of tests that need a driver which goes on.
    turning: Callable[[], None] = lambda: None
    # Plans that move what runs are made, too.
    moving: bool = False
    failing: bool = True
    # How often a stage may still run again because a task could not fetch what it sent, although every node
    # lives; and in how many jobs one did.
    repeats: int = 0
    repeated: int = 0
    applied: int = 0
    reported: list[DriverStatus] = field(default_factory=list)
    messages: list[Telemetry] = field(default_factory=list)
    # What agents acknowledged: checkpoint -> directory of the partition.
    acks: dict[int, dict[str, CheckpointAck]] = field(default_factory=dict)
    # Whether files are forced to disk: a host can crash.
    force: bool = False
    # Where replicas are to be.
    replicas: dict[str, str] = field(default_factory=dict)
    # Operators whose queries may give tentative output -> the least fidelity.
    tentative: dict[str, float] = field(default_factory=dict)
    # Key of the savepoint that the deployment begins with.
    savepoint: str = ""
    # As in `DeployedSpec`.
    desired: str = "running"
    computation: int = 0
    # Of the driver that lives, counted by `turning` where a test does.
    turns: int = 0

    def join(self) -> str:
        self.count += 1
        name = f"node-{self.count}"
        self.nodes[name] = f"10.0.0.{self.count}"
        (self.root / "nodes" / name).mkdir(parents=True)
        return name

    def kill(self, name: str) -> None:
        del self.nodes[name]
        shutil.rmtree(self.root / "nodes" / name)

    def freeze(self, name: str) -> None:
        self.frozen[name] = self.nodes.pop(name)

    def thaw(self) -> None:
        """All frozen nodes come back, with their disks."""
        self.nodes.update(self.frozen)
        self.frozen.clear()

    def upload(self) -> None:
        """The work of the agents: uploads and acknowledgements."""
        for home in sorted((self.root / "nodes").iterdir()):
            uploader = Uploader(
                node=home.name,
                node_home=home,
                storage=CheckpointStorage(self.checkpoints, force=self.force),
                acknowledge=self._acknowledge,
            )
            for path, older in newest_snapshots(home / "snapshots").items():
                for one in older:
                    one.unlink()
                uploader.upload(path)

    def _acknowledge(self, topology: str, ack: CheckpointAck, directory: str) -> bool:
        self.acks.setdefault(ack.checkpoint, {})[directory] = ack
        return True

    @property
    def checkpoints(self) -> str:
        return f"file://{self.root}/checkpoints"
