"""A driver as the control plane sees one: follows the plan and reports, without any data.

    python -m tests.integration.control_plane.driver_process TOPOLOGY HOSTS REDIS_URL

It applies each generation in four steps (restoring, replaying, running, a checkpoint a second later) and
prints every generation it applies. What changes is reported at once, and otherwise every second, as a driver
with epochs of a second does.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

import redis

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Session
from domain.messages import (
    TELEMETRY_FIELD,
    TELEMETRY_STREAM,
    CheckpointReport,
    DriverState,
    DriverStatus,
    EpochReport,
    LatestCheckpoint,
    PartitionMetrics,
    Plan,
    QueryMetrics,
    Telemetry,
    encode,
)

STEP = 0.25
SECOND = 4
"""Steps."""


class Driver:
    def __init__(self, topology: str, hosts: str, redis_url: str) -> None:
        self.topology = topology
        self.zookeeper = Session(hosts, 4.0)
        self.zookeeper.start()
        self.zookeeper.require_connected(30)
        self.stream = redis.Redis.from_url(redis_url, socket_timeout=2)
        self.generation = 0
        self.epoch = 0
        self.checkpoint = 0
        self.since_running = 0
        self.state: DriverState = "starting"
        self.partitions: set[str] = set()
        self.turns = 0
        self.told: tuple[object, ...] = ()

    def run(self) -> None:
        while True:
            self.zookeeper.check()
            with suppress(CoordinationUnavailableError):
                self.turn()
            time.sleep(STEP)

    def turn(self) -> None:
        stored = self.zookeeper.get(Paths.plan(self.topology), Plan)
        if stored is None:
            return
        plan = stored.value
        alive = set(self.zookeeper.children(Paths.NODES) or ())
        self.partitions |= plan.assignment.keys()
        absent = sorted(p for p in self.partitions if plan.assignment.get(p) not in alive)
        if plan.generation > self.generation:
            print("applied", plan.generation, plan.checkpoint, flush=True)
            self.generation, self.state = plan.generation, "restoring"
            if plan.rollback or not self.epoch:
                self.epoch = self.checkpoint = plan.checkpoint
        elif self.state == "restoring":
            self.state = "replaying"
        elif absent:
            self.state = "degraded"
        elif self.state == "running":
            self.epoch += 1
            self.since_running += 1
            if self.since_running == SECOND or self.since_running % (5 * SECOND) == 0:
                self.complete_checkpoint()
        else:
            self.state, self.since_running = "running", 0
            self.epoch += 1
        self.turns += 1
        tells = (self.zookeeper.session, self.generation, self.state, absent)
        if tells != self.told or self.turns % SECOND == 0:
            self.told = tells
            self.report(absent)
            self.report_epoch(plan, absent)

    def report_epoch(self, plan: Plan, absent: list[str]) -> None:
        """Latency 0.2 s; the one query of the topology stalls while anything is absent."""
        now = time.time()
        self.send(
            EpochReport(
                topology=self.topology, generation=self.generation, first=self.epoch, last=self.epoch,
                head=self.epoch, committed=self.epoch, tuples=10, started_at=now - 0.1, ended_at=now,
                input_rate=10.0, watermark=now, state=self.state, absent=absent,
                queries={
                    "Count[0]": QueryMetrics(epoch=self.epoch, latency=0.2, rows=1, stalled=bool(absent))
                },
                partitions={
                    p: PartitionMetrics(epoch=self.epoch, node=node, cost=0.01, rows_in=1, rows_out=1)
                    for p, node in plan.assignment.items()
                },
            )
        )  # fmt: skip

    def complete_checkpoint(self) -> None:
        self.checkpoint = self.epoch
        latest = LatestCheckpoint(
            checkpoint=self.epoch, generation=self.generation, completed_at=time.time(), size_bytes=1
        )
        self.zookeeper.put(Paths.latest_checkpoint(self.topology), latest)
        now = time.time()
        self.send(
            CheckpointReport(
                topology=self.topology, checkpoint=self.epoch, generation=self.generation, state="completed",
                acknowledged=1, total=1, size_bytes=1, started_at=now, ended_at=now,
            )
        )  # fmt: skip

    def report(self, absent: list[str]) -> None:
        session = self.zookeeper.session
        if not session:
            return  # between two sessions
        status = DriverStatus(
            topology=self.topology, pid=os.getpid(), session=session, generation=self.generation,
            state=self.state, head=self.epoch, committed=self.epoch, checkpoint=self.checkpoint,
            absent=absent, at=time.time(),
        )  # fmt: skip
        path = Paths.driver(self.topology)
        if self.zookeeper.claim(path, status):
            self.send(status)

    def send(self, message: Telemetry) -> None:
        with suppress(redis.RedisError):
            self.stream.xadd(TELEMETRY_STREAM, {TELEMETRY_FIELD: encode(message)}, maxlen=1000)


if __name__ == "__main__":
    Driver(*sys.argv[1:4]).run()
