"""The watch over the nodes: one thread that holds the ZooKeeper session of the detection worker.

It reads, in rounds, the registrations, the heartbeats and what the drivers say, gives all of it to the
failure detector with what the lifelines found out, and records what that decides (`decisions`). Watches on
the registrations and on the drivers' executors, and a lifeline that was refused, only make the next round
come at once; nothing depends on them. What is wrong with one value, one topology or one node is counted
(`quarantine`), and the round goes on with the others.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from controlplane.incidents.loading import deployed_topologies
from controlplane.lifecycle.nodes import nodes_heartbeat
from controlplane.nodes.choices import NODE_GONE, NODE_PRESENT
from controlplane.nodes.models import Node
from coordination.session import CoordinationUnavailableError, SessionState
from domain.messages import NodeStats
from domain.recovery.absence import AbsenceClock, nodes_seen
from domain.recovery.detector import FailureDetector
from domain.recovery.events import PartitionsLost
from domain.recovery.liveness import (
    DriverSaw,
    ExecutorsListed,
    HeartbeatRead,
    Limits,
    NodeKnown,
    NodesListed,
    SessionConnected,
    SessionInterrupted,
    Stimulus,
)
from workers.database import refuses
from workers.decisions import Decisions, UnrecordedDecisionError
from workers.lifelines import Lifelines
from workers.node_cpu import node_cpu
from workers.quarantine import quarantine
from workers.zookeeper import WorkerSession

log = structlog.get_logger(__name__)

ROUND = 0.5  # seconds between rounds
HURRIED_ROUND = 0.1  # while there is evidence that may be complete in a moment
TOPOLOGIES_EVERY = 2.0
STATS_EVERY = 1.0
CHANGED = "changed"
STOP = "stop"
AFTER_FAULT = 1.0
"""Seconds before the round that follows one with an unexpected error."""


class Watch(threading.Thread):
    """`start()` it, `finish()` it; it survives ZooKeeper and the database being away at any time."""

    def __init__(self) -> None:
        super().__init__(name="node-watch", daemon=True)
        self._signals: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._finished = threading.Event()
        self._clock_base = time.time() - time.monotonic()
        self._decisions = Decisions()
        self._absences = AbsenceClock()
        self._topologies: list[str] = []
        self._topologies_at = self._stats_at = float("-inf")
        self._coordination: WorkerSession | None = None
        self._beat = time.monotonic()
        self._lifelines = self._lifelines_new()
        self.detector = FailureDetector(
            Limits(
                heartbeat_interval=settings.RESURGE.heartbeat_interval,
                session_timeout=settings.RESURGE.session_timeout,
            )
        )

    def finish(self, limit: float = 5.0) -> None:
        self._finished.set()
        self._signals.put(STOP)
        self.join(limit)

    def beats(self) -> Mapping[str, float]:
        return {"node-watch": self._beat, "lifelines": self._lifelines.beat}

    def _lifelines_new(self) -> Lifelines:
        return Lifelines(self.now, lambda: self._signals.put(CHANGED))

    def now(self) -> float:
        """By which nodes are judged: wall time at the start and monotonic time since, which never jumps. What
        is recorded has the time of the host's clock: this one is wrong once the host has slept or its clock
        was put right."""
        return self._clock_base + time.monotonic()

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        self._recall()
        if self._finished.is_set():
            return
        self._coordination = WorkerSession(
            settings.RESURGE.zookeeper,
            settings.RESURGE.session_timeout,
            secret=settings.RESURGE.zookeeper_secret,
            on_state=self._signals.put,
            on_change=lambda: self._signals.put(CHANGED),
            on_refused=quarantine.refuse_znode,
        )
        self._coordination.start()
        self._lifelines.start()
        log.info("watching nodes", zookeeper=settings.RESURGE.zookeeper)
        try:
            while not self._finished.is_set():
                self._beat = time.monotonic()
                hurried = self.detector.hurried and self._coordination.connected
                signals = self._signals_within(HURRIED_ROUND if hurried else ROUND)
                try:
                    self._round(signals)
                    quarantine.tell()
                except UnrecordedDecisionError:
                    raise
                except Exception:
                    log.exception("a round of the node watch failed")
                    self._finished.wait(AFTER_FAULT)
        finally:
            self._lifelines.finish()
            self._coordination.close()

    def _recall(self) -> None:
        """Tell the detector which nodes the database knows; waits for the database."""
        while not self._finished.is_set():
            self._beat = time.monotonic()
            try:
                close_old_connections()
                known = [
                    NodeKnown(self.now(), node.name, node.session, node.pid, node.state in NODE_GONE)
                    for node in Node.objects.filter(state__in=NODE_PRESENT | NODE_GONE)
                ]
                self.detector.handle_stimulus(*known)
                return
            except DatabaseError as error:
                log.warning("database not ready", error=str(error))
                self._finished.wait(1.0)

    def _signals_within(self, wait: float) -> list[str]:
        """All signals there are, after waiting for the first."""
        signals: list[str] = []
        try:
            signals.append(self._signals.get(timeout=wait))
            while True:
                signals.append(self._signals.get_nowait())
        except queue.Empty:
            return signals

    def _round(self, signals: list[str]) -> None:
        stimuli: list[Stimulus] = []
        for signal in signals:
            if signal == SessionState.CONNECTED:
                stimuli.append(SessionConnected(self.now()))
            elif signal in (SessionState.SUSPENDED, SessionState.LOST):
                log.warning("zookeeper session " + signal.lower() + ": no node is judged meanwhile")
                stimuli.append(SessionInterrupted(self.now(), signal.lower()))
        close_old_connections()
        if not self._lifelines.is_alive() and not self._finished.is_set():
            log.critical("lifelines have ended: they are started again")
            self._lifelines = self._lifelines_new()
            self._lifelines.start()
        stimuli += (
            self._lifelines.news()
        )  # before heartbeats are read: those that change later speak against it
        try:
            self._observe(stimuli)
        except CoordinationUnavailableError as error:
            log.warning("nodes not listed", error=str(error))
        except Exception as error:
            # What has been observed until then counts all the same.
            log.exception("not everything was observed")
            quarantine.refuse("node watch", f"a round was cut short: {type(error).__name__}")
        self._decisions.add(self.detector.handle_stimulus(*stimuli))
        self._decisions.record()
        self._decisions.compare(self.detector.nodes, at=self.now())

    def _observe(self, stimuli: list[Stimulus]) -> None:
        """Append what ZooKeeper says now."""
        coordination = self._coordination
        if coordination is None:
            return
        coordination.check()
        if not coordination.connected:
            return
        # Nodes are judged as of this moment: a round that waits, as for the database, hears no heartbeat.
        at = self.now()
        registrations = coordination.registrations()
        self._lifelines.follow(registrations)
        names = {registration.id for registration in registrations}
        names |= {name for name, node in self.detector.nodes.items() if node.state != "lost"}
        stats = coordination.heartbeats(names)
        stimuli.append(NodesListed(at, tuple(registrations)))
        stimuli += [HeartbeatRead(at, one.id, one.session, one.at) for one in stats]
        self._store_statistics(stats)
        stimuli.extend(self._ask_drivers(coordination, at))

    def _ask_drivers(self, coordination: WorkerSession, at: float) -> Iterable[Stimulus]:
        self._refresh_topologies()
        yield ExecutorsListed(at, coordination.executors(self._topologies))
        alive = {name for name, node in self.detector.nodes.items() if node.state == "alive"}
        for name, facts in coordination.topology_facts(self._topologies, brief=True).items():
            try:
                absent, working = nodes_seen(facts.driver, facts.plan)
                overdue = self._absences.overdue(
                    at=at, topology=name, driver=facts.driver, plan=facts.plan, alive=alive
                )
            except Exception as error:
                log.exception("driver not understood", topology=name)
                quarantine.refuse("driver", f"its report was not understood: {error!r}", topology=name)
                continue
            yield DriverSaw(at, name, absent, working)
            if overdue and facts.plan is not None:
                self._absences.forget(name)
                longest = max(overdue.values())
                lost = PartitionsLost(
                    at=timezone.now().timestamp(),
                    topology=name,
                    generation=facts.plan.generation,
                    partitions=frozenset(overdue),
                    evidence=f"The driver has reported them absent for {longest:.0f} s; "
                    "their nodes are registered and send heartbeats.",
                )
                self._decisions.add([lost])

    def _refresh_topologies(self) -> None:
        if self.now() - self._topologies_at < TOPOLOGIES_EVERY:
            return
        try:
            self._topologies = list(deployed_topologies().values_list("name", flat=True))
            self._topologies_at = self.now()
        except DatabaseError as error:  # the list of before does for a while
            log.warning("topologies not read", error=str(error))

    # ---- statistics ------------------------------------------------------------------------------

    def _store_statistics(self, stats: list[NodeStats]) -> None:
        if self.now() - self._stats_at < STATS_EVERY or not stats:
            return
        self._stats_at = self.now()
        try:
            nodes_heartbeat(stats=stats, at=timezone.now())
            node_cpu.heartbeats(stats)
        except Exception as error:  # newer ones follow in a second
            log.warning("statistics of nodes not stored", error=str(error))
            if refuses(error):
                self._store_one_by_one(stats)

    def _store_one_by_one(self, stats: list[NodeStats]) -> None:
        """Store what can be stored where the statistics of one node are refused."""
        for one in stats:
            try:
                nodes_heartbeat(stats=[one], at=timezone.now())
            except Exception as error:
                if refuses(error):
                    quarantine.refuse(f"heartbeat of {one.id}", f"{type(error).__name__}: {error}")
