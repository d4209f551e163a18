"""What the node watch decides, written down in its order.

What cannot be recorded now, because the database is busy, is kept and tried again before anything newer. What
the database loses afterwards is recorded again, as after a failover to a standby that had not got the last
transactions, or with a backup that is put back: the watch decides only when something changes, so a loss that
is not recorded would stay unknown for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import cast

import structlog
from django.db import DatabaseError
from django.utils import timezone

from controlplane.incidents.services import partitions_lost
from controlplane.lifecycle.nodes import node_trust, nodes_lost, nodes_register, nodes_suspect
from controlplane.nodes.choices import NODE_PRESENT, NodeState
from controlplane.nodes.models import Node
from domain.recovery.events import NodesLost, PartitionsLost
from domain.recovery.liveness import (
    Instruction,
    NodeAlive,
    NodesSuspected,
    SuspicionCleared,
    WatchedNode,
)
from workers.database import TRIES, refuses
from workers.quarantine import quarantine

log = structlog.get_logger(__name__)

COMPARED_EVERY = 5.0
"""Seconds between two looks for what the database has lost."""
FORGOTTEN = "The database has lost what was recorded"

Decision = Instruction | PartitionsLost


class UnrecordedDecisionError(RuntimeError):
    """A decision about a loss could not be recorded. The watch ends: started again, it decides anew from what
    the database knows."""


class Decisions:
    """Those that wait to be recorded, the oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Decision] = deque()
        self._tries = 0
        self._unrecorded: set[str] = set()
        self._compared_at = float("-inf")

    def add(self, decisions: Iterable[Decision]) -> None:
        self._waiting.extend(decisions)

    def record(self) -> None:
        """Write down what waits; one that fails stays first in line. Raises `UnrecordedDecisionError`."""
        while self._waiting:
            decision = self._waiting[0]
            arrived = self._arrived()
            try:
                if arrived:
                    nodes_register(alive=arrived, at=timezone.now())
                else:
                    _carry_out(decision)
            except Exception as error:
                self._tries += refuses(error)
                if self._tries < TRIES:
                    log.warning("decision not recorded yet", decision=repr(decision), error=str(error))
                    return
                log.exception("decision not recorded", decision=repr(decision))
                what = f"a decision was not recorded, {type(decision).__name__}: {error}"
                quarantine.refuse("node watch", what)
                if not isinstance(decision, NodeAlive):
                    quarantine.tell()
                    raise UnrecordedDecisionError(what) from error
                # One node that cannot be recorded must not keep the others from it.
                self._unrecorded.add(decision.registration.id)
            self._tries = 0
            for _ in arrived or (decision,):
                self._waiting.popleft()

    def _arrived(self) -> list[NodeAlive]:
        """The nodes that are first in line: to take hundreds of them in one after the other, an incident
        would need minutes. Only the first one where some could not be recorded together."""
        arrived = [*takewhile(lambda one: isinstance(one, NodeAlive), self._waiting)]
        return cast(list[NodeAlive], arrived[:1] if self._tries else arrived)

    def compare(self, nodes: Mapping[str, WatchedNode], *, at: float) -> None:
        """Have what the database has lost of what was recorded about these nodes recorded again. `at` is by
        the clock of the watch, in seconds."""
        if self._waiting or at - self._compared_at < COMPARED_EVERY:
            return
        self._compared_at = at
        try:
            again = decisions_forgotten(nodes, at=at, unrecorded=self._unrecorded)
        except DatabaseError as error:
            log.warning("nodes not compared with the database", error=str(error))
            return
        if again:
            log.error("the database has lost decisions of the node watch", decisions=repr(again))
        self.add(again)


def _carry_out(decision: Decision) -> None:
    match decision:
        case NodesSuspected(nodes):
            log.warning("nodes suspect", nodes=dict(nodes))
            nodes_suspect(evidence=nodes)
        case SuspicionCleared(node, evidence):
            node_trust(name=node, evidence=evidence)
        case NodesLost(nodes=nodes):
            log.error("nodes lost", nodes=dict(nodes))
            nodes_lost(evidence=nodes, at=timezone.now())
        case PartitionsLost():
            partitions_lost(event=decision, at=timezone.now())


def decisions_forgotten(
    nodes: Mapping[str, WatchedNode], *, at: float, unrecorded: Collection[str] = ()
) -> list[Instruction]:
    """What must be recorded again of these nodes. unrecorded: those that the database refused."""
    rows = {row.name: row for row in Node.objects.filter(name__in=nodes)}
    lost: dict[str, str] = {}
    alive: list[Instruction] = []
    for name, node in nodes.items():
        row, registration = rows.get(name), node.registration
        present = row is not None and row.state in NODE_PRESENT
        if node.state == "lost":
            if present:
                lost[name] = f"{FORGOTTEN}: {node.story[-1][2]}" if node.story else FORGOTTEN
        elif registration is not None and registration.session == node.session and name not in unrecorded:
            if row is not None and row.session == node.session and row.state != NodeState.LOST:
                continue
            same_process = row is not None and row.pid == node.pid
            if present and not same_process:
                lost[name] = f"{FORGOTTEN}: another process registered under its name"
            alive.append(NodeAlive(registration, same_process, FORGOTTEN))
    return [*([NodesLost(at=at, nodes=lost)] if lost else ()), *alive]
