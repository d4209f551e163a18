"""The stack on which nodes are killed: which node has what, checkpoints of a wanted age, and replicas.

One node has the sources and is never killed. The synthetic partitions are on nodes of one rack; as many
nodes of the other rack have none and take replicas and what is restored. After all the first were killed,
these have the partitions, and the replacements are the spare ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.active_replicas.cells import HALF, Cell, replayed
from benchmarks.active_replicas.latency import Latencies, going_on, keeps_pace, latencies
from benchmarks.active_replicas.pipeline import (
    MAX_UTILISATION,
    QUERY,
    ROOMY,
    TIGHT,
    half_of,
    input_write,
    is_synthetic,
    source_capacity,
    spec_of,
    windowed,
)
from benchmarks.epoch_times import EpochTimes, following
from benchmarks.others import others
from benchmarks.stack import TOPOLOGY, BenchmarkStack, StackError, running_stack
from coordination.paths import Paths
from domain.messages import DriverStatus, ExecutorsSeen, decode
from domain.topology import Topology, load_topology, split_partition
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.sinks.tentative import tentative_path

SYNTHETIC_NODES, SPARE_NODES = 2, 2
SOURCE_NODE = "node-1"
EPOCH = 2.0
SESSION_TIMEOUT = 4.0
DELAY = 15.0
"""Seconds until a replacement starts. On one machine that takes CPU which a new machine would bring along, so
it comes when what is measured is over."""
PATIENCE = 300.0
TRIES = 5
"""Checkpoints that are made, at most, until one has the wanted age while the topology keeps pace."""
WARM_UP = 10.0
"""Seconds in which new executors import what they need."""
KEPT = 12.0
"""Seconds after all has caught up in which nothing is changed: the control plane learns of it."""


class Scene:
    """A running stack with the topology of one rate."""

    def __init__(self, stack: BenchmarkStack, times: EpochTimes, topology: Topology, client: Any) -> None:
        """client: of ZooKeeper."""
        self.stack, self.times, self.topology, self.epoch = stack, times, topology, EPOCH
        self._client = client

    @property
    def status(self) -> DriverStatus:
        return decode(self._client.get(Paths.driver(TOPOLOGY))[0], DriverStatus)

    # ---- before a kill

    def prepare(self, cell: Cell) -> None:
        """Let everything be as the cell wants it: nodes, replicas, and a checkpoint of this age."""
        if cell.age is None:
            self._wait_for(round(replayed(cell) / self.epoch))
            return
        self._settle()
        self._replicate(cell)
        for _ in range(TRIES):
            self._wait_for(0)
            wanted = self.checkpoint() + round(replayed(cell) / self.epoch)
            self._wait_for(wanted)
            if self.status.head <= wanted + 1:
                return  # else it fell behind meanwhile, and the checkpoint is too old

    def _wait_for(self, wanted: int) -> None:
        """Until an epoch is committed, and all that is due."""
        self.stack.expect(
            lambda: self.status.committed >= wanted and keeps_pace(self.times, time.time(), self.epoch),
            f"epoch {wanted} and all that is due",
            timeout=PATIENCE,
        )

    def _settle(self) -> None:
        """Until replacements could take partitions: before, a plan would wait for their executors."""
        wanted = 1 + SYNTHETIC_NODES + SPARE_NODES

        def settled() -> bool:
            nodes = self.stack.nodes("alive").keys()
            seen = decode(self._client.get(Paths.executors(TOPOLOGY))[0], ExecutorsSeen)
            return len(nodes) >= wanted and nodes <= set(seen.present) and self.stack.is_healthy()

        self.stack.expect(settled, f"{wanted} nodes and the query available", timeout=PATIENCE)
        time.sleep(WARM_UP)

    def _replicate(self, cell: Cell) -> None:
        partitions = len(self.topology.partitions)
        budget = half_of(partitions) if cell.share == HALF else round(partitions * cell.share)
        self.stack.policy_set(
            replication_mode="on" if budget else "off",
            replication_budget=max(budget, 1),
            tentative_output="on" if cell.share == HALF else "off",
            tentative_fidelity=0.25,
        )
        if not budget:
            self.stack.expect(lambda: not self.status.shadows, "no replica", timeout=PATIENCE)
            return

        def replicated() -> bool:
            rows = self.stack.rest.get(f"topologies/{TOPOLOGY}/replicas/")["replicas"]
            return len(rows) == budget and all(row["wanted"] and row["caught_up"] for row in rows)

        self.stack.expect(replicated, f"{budget} replicas that have caught up", timeout=PATIENCE)

    def checkpoint(self) -> int:
        """Ask for a checkpoint until there is a new one; its epoch."""
        before = self.status.checkpoint
        asked = 0.0

        def taken() -> bool:
            nonlocal asked
            if time.monotonic() - asked > 60.0:
                asked = time.monotonic()
                self.stack.rest.post(f"topologies/{TOPOLOGY}/checkpoint/", {"reason": "benchmark"})
            return self.status.checkpoint > before

        self.stack.expect(taken, "a new checkpoint", timeout=PATIENCE)
        return self.status.checkpoint

    # ---- the kill

    def kill(self, cell: Cell) -> dict[str, Any]:
        """Kill the nodes of a cell and wait until all that was lost has caught up; what was measured."""
        homes = {
            node: [one for one in partitions if is_synthetic(one)]
            for node, partitions in self.stack.homes().items()
        }
        victims = sorted(node for node, partitions in homes.items() if partitions)
        if SOURCE_NODE in victims:
            raise StackError(f"{SOURCE_NODE}, which has the sources, has {homes[SOURCE_NODE]}")
        if cell.failure == "single":
            victims = [max(victims, key=lambda node: len(windowed(homes[node])))]
        lost = [one for node in victims for one in homes[node]]
        before, incidents = self.status, len(self.stack.incidents())
        replicated = sorted(one for one in lost if one in before.shadows and before.shadows[one].ready)
        active = going_on(self.topology, lost, replicated)
        records = [self.stack.node_process(name) for name in victims]
        own = {os.getpid(), *self.stack.processes()}
        beside = others(own)
        killed = self.stack.kill_nodes(*victims)
        # Nothing is asked of the control plane meanwhile: that would take CPU.
        deadline = time.monotonic() + PATIENCE
        while (found := self._latencies(killed, lost, active)).caught_up is None:
            if time.monotonic() > deadline:
                raise StackError(f"{cell}: not caught up after {PATIENCE:g} s; {self.stack.summary()}")
            time.sleep(0.2)
        load = others({os.getpid(), *self.stack.processes()}).cores_since(beside)
        row = {
            "failure": cell.failure,
            "technique": cell.technique,
            "share": cell.share,
            "interval": cell.age,
            "age": round((before.head - before.checkpoint) * self.epoch, 1),
            "killed": sum(not record.alive for record in records),
            "lost": len(windowed(lost)),
            "replicated": len(windowed(replicated)),
            "going_on": len(windowed(active)),
            "output": found.output,
            "caught_up": found.caught_up,
            "active": found.active,
            "tentative": found.tentative,
            "load": round(os.getloadavg()[0], 2),
            "others": round(load, 2),
        }
        self._afterwards(row, incidents, set(replicated))
        return row

    def _latencies(self, killed: float, lost: list[str], active: list[str]) -> Latencies:
        return latencies(
            self.times,
            killed=killed,
            epoch=self.epoch,
            lost=lost,
            active=active,
            query=QUERY,
            tentative=self._tentative(),
        )

    def _tentative(self) -> Mapping[int, float]:
        """Epoch -> when its tentative rows were in their place, of the query."""
        found = self._tentative_files.glob("epoch=*/*.parquet")
        return {int(path.parent.name.removeprefix("epoch=")): path.stat().st_mtime for path in found}

    @cached_property
    def _tentative_files(self) -> Path:
        operator, index = split_partition(QUERY)
        deployed = self.stack.plan(TOPOLOGY)["deployed"]
        return tentative_path(self.stack.home / "outputs", TOPOLOGY, deployed, operator, index)

    def _afterwards(self, row: dict[str, Any], incidents: int, replicated: set[str]) -> None:
        """Until the incident is over. What no plan restored although its node was lost was taken over."""
        self.stack.expect(lambda: len(self.stack.incidents()) > incidents, "an incident", timeout=60)
        time.sleep(KEPT)
        self.checkpoint()  # an incident ends with one
        self.stack.healthy(timeout=PATIENCE)
        plans = [
            plan for one in self.stack.incidents()[incidents:] for plan in self.stack.plans(one["number"])
        ]
        restored = {partition for plan in plans for partition in plan["restore"]}
        row["taken_over"] = len(windowed(replicated - restored))
        row["restored"] = len(windowed(restored))
        row["plans"] = len(plans)


@contextmanager
def scene(rate: int, *, keep_logs: Path | None = None) -> Iterator[Scene]:
    """A stack on which the topology of this rate has just been deployed."""
    nodes = 1 + SYNTHETIC_NODES + SPARE_NODES
    variables = {
        "RESURGE_SESSION_TIMEOUT": f"{SESSION_TIMEOUT:g}",
        "RESURGE_REPLACEMENT_DELAY": f"fixed:{DELAY:g}",
        "RESURGE_MAX_UTILISATION": f"{MAX_UTILISATION:g}",
        # Capacities limit planning only.
        "RESURGE_CPU_CAPS": "0",
    }
    with running_stack(nodes=nodes, variables=variables, keep_logs=keep_logs) as stack:
        spec = spec_of(rate, epoch=EPOCH)
        place(stack, spec, input_write(stack.home / "input" / "keys.parquet", rate))
        log = stack.home / "topologies" / TOPOLOGY / "epochs.log"
        stack.wait_for_status("running", timeout=PATIENCE)
        with following(log) as times, stack.zookeeper() as client:
            yield Scene(stack, times, load_topology(spec, catalogue), client)


def place(stack: BenchmarkStack, spec: dict[str, Any], path: Path) -> None:
    """Deploy so that one node has all sources, and the spare ones nothing."""
    racks = {name: row["rack"] for name, row in sorted(stack.nodes("alive").items())}
    besides = [name for name in racks if name != SOURCE_NODE]
    spare = [name for name in besides if racks[name] != racks[SOURCE_NODE]][:SPARE_NODES]
    # A node that stands by gets no partitions. These do only while the topology is placed.
    stack.nodes_update(spare, standby=True)
    stack.nodes_update(besides, capacity=TIGHT)
    stack.nodes_update([SOURCE_NODE], capacity=source_capacity())
    stack.deploy_spec(spec, input=path)
    stack.policy_set(method="incremental", planner="best_density", rollback="ancestors", approval="automatic")
    stack.nodes_update(besides, standby=False, capacity=ROOMY)
    stack.nodes_update([SOURCE_NODE], capacity=1)
    homes = stack.homes()
    wrong = [
        one for node, found in homes.items() for one in found if is_synthetic(one) == (node == SOURCE_NODE)
    ]
    if wrong or any(homes[name] for name in spare):
        raise StackError(f"partitions are not where they are to be: {homes}")
