"""Telemetry from the Redis stream into the database: one thread of the detection worker.

Messages are read in a consumer group, and acknowledged and deleted when they have been applied, so those that
a killed worker had in hand are read again; the services they go to take repetitions. Redis may lose all of it
at any time: the next message, and the sweep's look at ZooKeeper, carry the whole truth. A message that cannot
be used goes into a stream of its own, `REFUSED_STREAM`, and is counted (`quarantine`); those behind it are
applied.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping

import structlog
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events.tasks import INCIDENT_STEP, task_send
from controlplane.incidents.plans import plan_mark_applied
from controlplane.topologies.problems import problem_record
from controlplane.topologies.telemetry import driver_status_apply, topology_metrics_apply
from domain.capacity import Pace, Saturation
from domain.messages import (
    TELEMETRY_FIELD,
    TELEMETRY_MAXLEN,
    TELEMETRY_STREAM,
    CheckpointReport,
    DriverStatus,
    EpochReport,
    ProblemReport,
    Telemetry,
    UnreadableValueError,
    decode_telemetry,
)
from domain.recovery.incident import APPLIED_STATES
from workers.availabilities import Availabilities
from workers.database import TRIES, refuses
from workers.node_cpu import node_cpu
from workers.quarantine import quarantine

log = structlog.get_logger(__name__)

GROUP = "control-plane"
CONSUMER = "ingestion"
BATCH = 500
MOST, MOST_BYTES = TELEMETRY_MAXLEN, 64_000_000
"""Messages that are applied together, and the bytes after which no more are read."""
BLOCK_MS = 1000
RETRY_AFTER = 1.0
REFUSED_STREAM = f"{TELEMETRY_STREAM}:refused"
REFUSED_KEPT = 1_000
"""Messages that could not be used, the newest; `manage.py` and REST do not read them, `redis-cli` does."""
REFUSED_BYTES = 16_384
"""Of each field of such a message."""
AHEAD = 86_400.0
"""Seconds. A report from so far in the future is refused: it would make all later ones look late."""


Entries = list[tuple[bytes, dict[bytes, bytes]]]


class NotYetError(Exception):
    """The database takes nothing now: the batch is read again."""


class Ingestion(threading.Thread):
    """`start()` it, `finish()` it; it survives Redis and the database being away at any time."""

    def __init__(self) -> None:
        super().__init__(name="telemetry-ingestion", daemon=True)
        self._finished = threading.Event()
        self._availabilities = Availabilities()
        self._saturations: dict[str, Saturation] = {}
        self._tries: Counter[bytes] = Counter()
        self._beat = time.monotonic()
        self._redis: Redis = Redis.from_url(
            settings.RESURGE.redis_url,
            socket_timeout=5,
            socket_connect_timeout=3,
            health_check_interval=10,
        )

    def finish(self, limit: float = 5.0) -> None:
        self._finished.set()
        self.join(limit)

    def beats(self) -> Mapping[str, float]:
        return {"telemetry-ingestion": self._beat}

    def run(self) -> None:
        position = "0"  # first what an earlier process had in hand, then what is new
        while not self._finished.is_set():
            self._beat = time.monotonic()
            close_old_connections()
            try:
                entries = self._read(position)
                if entries:
                    self._apply([(entry, fields) for entry, fields in entries])
                elif position == "0":
                    position = ">"
                quarantine.tell()
            except RedisError as error:
                log.warning("telemetry stream not readable", error=str(error))
                position = "0"
                self._finished.wait(RETRY_AFTER)
            except (DatabaseError, NotYetError) as error:
                log.warning("telemetry not stored yet", error=str(error))
                position = "0"  # what was not acknowledged is read again
                self._finished.wait(RETRY_AFTER)
            except Exception:
                log.exception("a round of the ingestion failed")
                position = "0"
                self._finished.wait(RETRY_AFTER)
        self._redis.close()

    def _read(self, position: str) -> Entries:
        """What comes after `position`; a backlog together, up to a bound, because most of its reports are
        superseded by later ones. Of hundreds of topologies a batch has one or two reports each."""
        found = batch = self._batch(position, BLOCK_MS)
        while len(batch) == BATCH and len(found) < MOST and _size(found) < MOST_BYTES:
            batch = self._batch(position if position == ">" else batch[-1][0].decode(), None)
            found = found + batch
        return found

    def _batch(self, position: str, block: int | None) -> Entries:
        try:
            answer = self._redis.xreadgroup(
                GROUP, CONSUMER, {TELEMETRY_STREAM: position}, count=BATCH, block=block
            )
        except ResponseError as error:
            if "WRONGTYPE" in str(error):
                self._redis.rename(TELEMETRY_STREAM, f"{REFUSED_STREAM}:key")
                quarantine.refuse(f"Redis {TELEMETRY_STREAM}", "the key was no stream; it was renamed")
                return []
            if "NOGROUP" not in str(error):
                raise
            # The first start, or Redis has lost everything.
            self._redis.xgroup_create(TELEMETRY_STREAM, GROUP, id="0", mkstream=True)
            return []
        found = _entries(answer)
        trimmed = [entry for entry, fields in found if not fields]
        if not trimmed:
            return found
        # They were in hand while more came than the stream keeps. What is in hand now stands behind them.
        log.warning("telemetry lost: it waited too long", messages=len(trimmed))
        self._redis.xack(TELEMETRY_STREAM, GROUP, *trimmed)
        return [(entry, fields) for entry, fields in found if fields] or self._batch(position, block)

    def _apply(self, entries: Entries) -> None:
        """Apply a batch, then acknowledge it. Raises `NotYetError` or `DatabaseError` where the database
        takes nothing now: what was not applied is not acknowledged."""
        messages: dict[bytes, Telemetry] = {}
        for entry, fields in entries:
            try:
                messages[entry] = self._decoded(fields)
            except (KeyError, UnreadableValueError) as error:
                why = str(error) if isinstance(error, ValueError) else f"no field {error}"
                self._refuse(entry, fields, why)
        self._availabilities.look()
        moved: set[str] = set()
        kept = _coalesced(messages)
        for entry, fields in entries:
            if entry in kept:
                self._beat = time.monotonic()
                self._apply_one(entry, fields, kept[entry], moved)
        self._done([entry for entry, _ in entries])
        self._tries.clear()
        for topology in sorted(moved):
            if topology in self._availabilities.incidents:
                task_send(INCIDENT_STEP, self._availabilities.incidents[topology])

    def _done(self, entries: list[bytes]) -> None:
        """Acknowledge and delete: the reports of large topologies would fill Redis, which then takes neither
        reports nor tasks, long before they are as many as a stream keeps."""
        with self._redis.pipeline() as both:
            both.xack(TELEMETRY_STREAM, GROUP, *entries)
            both.xdel(TELEMETRY_STREAM, *entries)
            both.execute()

    def _decoded(self, fields: dict[bytes, bytes]) -> Telemetry:
        message = decode_telemetry(fields[TELEMETRY_FIELD.encode()])
        ahead = message.ended_at - time.time() if isinstance(message, EpochReport) else 0.0
        if ahead > AHEAD:
            raise UnreadableValueError(f"it ended {ahead:.0f} s in the future, by the clock of this host")
        return message

    def _apply_one(
        self, entry: bytes, fields: dict[bytes, bytes], message: Telemetry, moved: set[str]
    ) -> None:
        """Apply one message; what cannot be applied must not block those behind it."""
        try:
            if self._take_in(message):
                moved.add(message.topology)
        except Exception as error:
            if isinstance(error, DatabaseError):
                self._tries[entry] += refuses(error)
                if self._tries[entry] < TRIES:
                    raise NotYetError(str(error)) from error
            log.exception("telemetry dropped", message=repr(message)[:500])
            self._refuse(entry, fields, f"{type(error).__name__}: {error}", topology=message.topology)

    def _refuse(self, entry: bytes, fields: dict[bytes, bytes], why: str, *, topology: str = "") -> None:
        log.error("telemetry refused", entry=entry.decode(), error=why)
        quarantine.refuse("telemetry", why, topology=topology)
        # Once: a batch that is read again has gone through here before.
        self._redis.xack(TELEMETRY_STREAM, GROUP, entry)
        cut = {name[:REFUSED_BYTES]: value[:REFUSED_BYTES] for name, value in list(fields.items())[:10]}
        kept = {b"entry": entry, b"why": why.encode(errors="replace"), **cut}
        self._redis.xadd(REFUSED_STREAM, kept, maxlen=REFUSED_KEPT, approximate=True)  # type: ignore[arg-type]

    def _take_in(self, message: Telemetry) -> bool:
        """Apply one message; True if it may move an incident on."""
        match message:
            case EpochReport():
                node_cpu.report(message)
                verdicts, changed = self._availabilities.observe(message)
                topology_metrics_apply(report=message, health=verdicts, pace=self._pace(message))
                return changed
            case DriverStatus():
                driver_status_apply(status=message)
                if message.state in APPLIED_STATES:
                    plan_mark_applied(topology=message.topology, generation=message.generation)
                self._availabilities.look(force=True)
                return True
            case CheckpointReport():
                checkpoint_apply(report=message)
                return message.state == "completed"
            case ProblemReport():
                problem_record(report=message)
                return False

    def _pace(self, report: EpochReport) -> Pace:
        saturation = self._saturations.setdefault(report.topology, Saturation())
        return saturation.observe(
            generation=report.generation,
            started=report.started_at,
            ended=report.ended_at,
            # Without a job there is no work, and its epochs are those of an earlier one.
            epochs=report.last - report.first + 1 if report.work else 0,
            waiting=report.head - report.last,
            interval=report.epoch_interval,
            replayed=report.replayed > 0,
            cycle=report.window_cycle,
        )


def _size(entries: Entries) -> int:
    return sum(len(value) for _, fields in entries for value in fields.values())


def _entries(answer: object) -> Entries:
    """The entries of the one stream asked for, from either form redis-py answers in; without fields where the
    stream has them no more."""
    if not answer:
        return []
    streams = list(answer.values()) if isinstance(answer, dict) else [stream[1] for stream in answer]  # type: ignore[attr-defined]
    found: Entries = []
    for entries in streams:
        rows = entries[0] if entries and isinstance(entries[0], list) else entries
        found += [(entry, fields or {}) for entry, fields in rows]
    return found


def _coalesced(messages: Mapping[bytes, Telemetry]) -> dict[bytes, Telemetry]:
    """Drop epoch reports that a later one of the same topology and generation in the batch supersedes,
    where a backlog has built up: only the newest counts, except for their sums, which are not kept."""
    newest: dict[tuple[str, int], bytes] = {}
    backlog: defaultdict[str, int] = defaultdict(int)
    for entry, message in messages.items():
        if isinstance(message, EpochReport):
            newest[message.topology, message.generation] = entry
            backlog[message.topology] += 1
    return {
        entry: message
        for entry, message in messages.items()
        if not isinstance(message, EpochReport)
        or backlog[message.topology] <= 5
        or newest[message.topology, message.generation] == entry
    }
