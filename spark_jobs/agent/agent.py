"""The main loop of a node's agent."""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType

import structlog

from domain.messages import SparkApplication
from host.environment import Environment
from spark_jobs.agent.executors import Executors
from spark_jobs.agent.forgetting import Forgetting
from spark_jobs.agent.keeper_process import KeeperProcess
from spark_jobs.agent.lifeline import Lifeline
from spark_jobs.agent.membership import NodeIdentity, NodeMembership
from spark_jobs.agent.prefetch import Prefetch
from spark_jobs.agent.statistics import UsageSampler
from spark_jobs.agent.uploads import Uploader
from spark_jobs.state.checkpoint_storage import CheckpointStorage

log = structlog.get_logger()

RECONCILE_INTERVAL = 0.2


class AlreadyRunningError(RuntimeError):
    """Another agent works with the same node directory."""


class Agent:
    """One node. The main thread owns the executors; ZooKeeper, the uploads and what is forgotten have a
    thread each."""

    def __init__(self, identity: NodeIdentity, environment: Environment) -> None:
        self._node_home = environment.home / "nodes" / identity.id
        for directory in ("state", "snapshots", "spark", "work"):
            (self._node_home / directory).mkdir(parents=True, exist_ok=True)
        environment.logs.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._node_home / "agent.lock")
        self._lifeline = Lifeline(identity.address)
        self._identity = replace(identity, lifeline=self._lifeline.port)
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._wanted: Mapping[str, SparkApplication | None] = {}
        self._gone: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._executors = Executors(
            node=identity.id,
            address=identity.address,
            slots=identity.slots,
            secret=environment.spark_secret,
            home=environment.home,
            node_home=self._node_home,
        )
        self._keeper = KeeperProcess(self._node_home)
        self._membership = NodeMembership(
            identity=self._identity,
            hosts=environment.zookeeper,
            secret=environment.zookeeper_secret,
            session_timeout=environment.session_timeout,
            heartbeat_interval=environment.heartbeat_interval,
            usage=UsageSampler(os.getsid(0), self._node_home, roots=self._executors.processes).sample,
            executors=lambda: self._executors.topologies,
            on_wanted=self._want,
        )
        self._forgetting = Forgetting(
            node_home=self._node_home,
            ask=self._membership.over,
            on_gone=self._gone.put,
        )
        self._uploader = Uploader(
            node=identity.id,
            node_home=self._node_home,
            storage=CheckpointStorage(environment.checkpoints, force=environment.force),
            acknowledge=self._membership.acknowledge,
            begin=self._forgetting.looked,
            cores=identity.capacity / 100,
        )

        self._threads: list[threading.Thread] = [self._membership, self._forgetting, self._uploader]
        self._prefetch: Prefetch | None = None
        if identity.standby:
            self._prefetch = Prefetch(
                node_home=self._node_home,
                url=environment.checkpoints,
                ask=self._membership.newest_checkpoints,
            )
            self._threads.append(self._prefetch)

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        log.info(
            "agent starts",
            **{name: getattr(self._identity, name) for name in ("id", "address", "rack", "slots")},
        )
        for thread in self._threads:
            thread.start()
        code = 0
        while not self._stop.is_set():
            self._executors.reconcile(self._wanted)
            self._keeper.reconcile()
            while not self._gone.empty():
                self._executors.forget(self._gone.get(), self._wanted)
            if not all(thread.is_alive() for thread in self._threads):
                log.error("a thread of the agent ended unexpectedly; the agent stops to be started again")
                code = 1
                break
            self._changed.wait(RECONCILE_INTERVAL)
            self._changed.clear()
        if self._prefetch is not None:
            self._prefetch.finish()
        self._forgetting.finish()
        self._membership.finish()
        self._uploader.finish()
        self._executors.stop_all()
        self._keeper.stop()
        self._lifeline.close()
        log.info("agent ends")
        return code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()
        self._changed.set()

    def _want(self, topologies: Mapping[str, SparkApplication | None]) -> None:
        if topologies != self._wanted:
            self._wanted = topologies
            self._changed.set()


def lead_session(identity: NodeIdentity) -> NodeIdentity:
    """Make this process the leader of a session of its own unless it is one; the node fails as a whole
    when that session is killed."""
    if os.getsid(0) != os.getpid() and os.getpgid(0) != os.getpid():
        os.setsid()
    return replace(identity, pid=os.getpid())


def _lock(path: Path) -> int:
    """Hold the node's directory for this process; the kernel lets go of it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + 5
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise AlreadyRunningError(f"another agent already runs with {path.parent}") from None
            time.sleep(0.1)
        else:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
