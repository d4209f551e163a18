"""The epoch log: which source slices each epoch reads, written before the epoch runs.

It is the source buffer of the papers (incremental recovery, section 4.2): after any failure the same epochs
are replayed over the same slices. One JSON object per line, forced to disk before it is acted on:

    {"t":"start","at":...,"origin_us":...}                  first start of the topology; its clock
    {"t":"life","number":...}                               a driver began; how many did so far
    {"t":"plan","epoch":...,"slices":...,"watermark":...}   an epoch that will run
    {"t":"commit","epoch":...,"at":...}                     every partition has applied all epochs up to it
    {"t":"applied","generation":...,"deployed":...,"epoch":...,"homes":...}   a plan was adopted, and where
                                                            it put us; `deployed` as in `Plan`,
                                                            `computation` as in `DeployedSpec`, `division`
                                                            as in `Layout`
    {"t":"trim","below":...}                                epochs before it are not needed any more

Each ends with its checksum (`"crc"`), which those of versions before this one do not.

The last two also say, where it is not nothing, which partitions are `ahead` of that epoch, what is still to
`restore` from which checkpoint, the newest `checkpoint`, on which node the `shadows` of partitions are and
how far, on which nodes some are `acting` for partitions, and where `branches` are and how far. A line torn by
a crash at the end of the file is cut off when the log is opened."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from domain.execution.job import Division, EpochPlan
from domain.execution.progress import Position
from host.durable import force_names, write_whole

log = structlog.get_logger()
FEWEST_TRIMMED = 64
"""Plans in the file that are not needed any more, from which it is written anew: two forced writes, for which
an epoch waits."""
_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')


def epoch_log_directory(home: Path, topology: str) -> Path:
    """Where a topology's epoch log is, with its prepared input and the lock of its driver."""
    return home / "topologies" / topology


class EpochLogError(RuntimeError):
    """The log is damaged before its last line; the message says where."""


class EpochLog:
    """Open with `EpochLog(path)`; the attributes are what the lines add up to. force: False leaves it to the
    operating system when lines reach the disk."""

    def __init__(self, path: Path, *, force: bool = True) -> None:
        self.path = path
        self._force = force
        self.started_at: float | None = None
        self.origin_us: int | None = None
        self.plans: dict[int, EpochPlan] = {}
        self._superfluous = 0
        """Plans in the file that are not in `plans`."""
        self.head = 0
        self.life = 0
        self.position = Position()
        self.generation = 0
        self.deployed = self.computation = 0
        self.homes: dict[str, str] = {}
        self.division: Division | None = None
        self.begun_after: EpochPlan | None = None
        """The epoch of the savepoint that the run began with: what it gives begins with the next one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._load()
        path.touch()
        if force:
            force_names(path.parent, root=path.parent.parent)
        self._file = open(path, "ab")  # noqa: SIM115 - kept open for the life of the driver

    def _load(self) -> None:
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        complete = data.rfind(b"\n") + 1
        if complete < len(data):
            log.warning(
                "epoch log ended in a torn line, cut off", path=str(self.path), bytes=len(data) - complete
            )
            os.truncate(self.path, complete)
        for number, line in enumerate(data[:complete].splitlines(), start=1):
            try:
                self._take(msgspec.json.decode(_whole(line)))
            except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
                raise EpochLogError(
                    f"{self.path}, line {number}: {error}. Restore the file from a backup, or undeploy the "
                    "topology and deploy it again to start from its first tuple."
                ) from error

    def _take(self, entry: dict[str, Any]) -> None:
        kind = entry.pop("t")
        if kind == "start":
            self.started_at, self.origin_us = entry["at"], entry["origin_us"]
            self.begun_after = msgspec.convert(entry.get("after"), EpochPlan | None)
        elif kind == "life":
            self.life = msgspec.convert(entry["number"], int)
        elif kind == "plan":
            plan = msgspec.convert(entry, EpochPlan)
            self.plans[plan.epoch] = plan
            self.head = max(self.head, plan.epoch)
        elif kind == "commit":
            self.position = _position(entry)
        elif kind == "applied":
            self.generation = entry["generation"]
            self.deployed = msgspec.convert(entry.get("deployed", 0), int)
            self.computation = msgspec.convert(entry.get("computation", 0), int)
            self.position = _position(entry)
            self.homes = msgspec.convert(entry.get("homes", {}), dict[str, str])
            self.division = msgspec.convert(entry.get("division"), Division | None)
        elif kind == "trim":
            self._drop(msgspec.convert(entry["below"], int))
        elif kind == "head":
            self.head = max(self.head, entry["epoch"])

    def _append(self, entries: Iterable[dict[str, Any]], *, durable: bool = True) -> None:
        self._file.write(b"".join(_line(entry) for entry in entries))
        self._file.flush()
        if durable and self._force:
            os.fdatasync(self._file.fileno())

    def holds(self, checkpoint: int) -> bool:
        """Whether every epoch after `checkpoint` can be replayed."""
        return checkpoint >= self.head or checkpoint + 1 in self.plans

    def start(self, *, at: float, origin_us: int) -> None:
        """Say when the first epoch began, or had to, to be where the input is now."""
        self.started_at, self.origin_us = at, origin_us
        self._append([self._started()])

    def begin_life(self) -> None:
        """A driver begins to work; nothing that one before it began is to be mistaken for its own."""
        self.life += 1
        self._append([{"t": "life", "number": self.life}])

    def plan(self, plans: list[EpochPlan]) -> None:
        """Record epochs before they run."""
        self._append({"t": "plan", **msgspec.to_builtins(plan)} for plan in plans)
        for plan in plans:
            self.plans[plan.epoch] = plan
            self.head = plan.epoch

    @property
    def committed(self) -> int:
        return self.position.committed

    @property
    def has_output(self) -> bool:
        """Whether an epoch of this run is committed."""
        return self.committed > (self.begun_after.epoch if self.begun_after else 0)

    def commit(self, position: Position, at: float, *, durable: bool = False) -> None:
        """Losing this line in a crash only means applying the epochs again, unless the position names a
        new checkpoint."""
        self.position = position
        self._append([{"t": "commit", **_fields(position), "at": at}], durable=durable)

    def applied(self, generation: int, position: Position, homes: dict[str, str]) -> None:
        self.generation, self.position, self.homes = generation, position, homes
        self._append([self._applied()])

    def go_over(self, computation: int, checkpoint: int, divided: Sequence[str] = ()) -> None:
        """Another version of the topology, which computes otherwise, goes on from a checkpoint. divided:
        operators whose keys it has in other partitions."""
        self.computation = computation
        self.division = _division(checkpoint, divided)
        self.applied(self.generation, Position(checkpoint, checkpoint=checkpoint), {})

    def _applied(self) -> dict[str, Any]:
        return {
            "t": "applied",
            "generation": self.generation,
            "deployed": self.deployed,
            "computation": self.computation,
            "homes": self.homes,
            **({"division": msgspec.to_builtins(self.division)} if self.division else {}),
            **_fields(self.position),
        }

    def trim(self, below: int) -> None:
        """Forget epochs below `below`, which no replay can need any more. The newest of them stays, because
        its end is where the next one starts. Once the file has more of others, it is rewritten, atomically;
        until then a line tells, the loss of which in a crash does no harm."""
        if not self._drop(below):
            return
        if self._superfluous >= max(FEWEST_TRIMMED, len(self.plans)):
            self._rewrite(self._lines())
        else:
            self._append([{"t": "trim", "below": below}], durable=False)

    def _drop(self, below: int) -> bool:
        """Whether there were any."""
        kept = {epoch: plan for epoch, plan in self.plans.items() if epoch >= min(below, self.head)}
        dropped = len(self.plans) - len(kept)
        self.plans = kept
        self._superfluous += dropped
        return dropped > 0

    def _lines(self) -> list[dict[str, Any]]:
        """All that is known, as lines."""
        return [
            self._started(),
            {"t": "life", "number": self.life},
            {"t": "head", "epoch": self.head},
            *({"t": "plan", **msgspec.to_builtins(plan)} for plan in self.plans.values()),
            self._applied(),
        ]

    def _started(self) -> dict[str, Any]:
        return {
            "t": "start",
            "at": self.started_at,
            "origin_us": self.origin_us,
            **({"after": msgspec.to_builtins(self.begun_after)} if self.begun_after else {}),
        }

    def start_afresh(self) -> None:
        """Forget the run, atomically, but not how many drivers there were: nodes keep what these computed,
        and where operators are not deterministic only that number tells it from what is computed next."""
        self._rewrite([{"t": "life", "number": self.life}])
        self.started_at = self.origin_us = None
        self.plans, self.homes, self.division, self.begun_after = {}, {}, None, None
        self.head = self.generation = self.deployed = self.computation = 0
        self.position = Position()

    def begin_after(
        self,
        plan: EpochPlan,
        *,
        started_at: float,
        origin_us: int,
        computation: int,
        divided: Sequence[str] = (),
    ) -> None:
        """Begin a run, atomically, with what another had after the epoch of `plan`. divided: as in
        `go_over`."""
        self.started_at, self.origin_us, self.begun_after = started_at, origin_us, plan
        self.plans, self.head = {plan.epoch: plan}, plan.epoch
        self.computation = computation
        self.division = _division(plan.epoch, divided)
        self.position = Position(plan.epoch, checkpoint=plan.epoch)
        self._rewrite(self._lines())

    def _rewrite(self, lines: list[dict[str, Any]]) -> None:
        """Replace the file by one with these lines, atomically."""
        content = b"".join(_line(line) for line in lines)
        write_whole(self.path, content, root=self.path.parent.parent, force=self._force)
        self._superfluous = 0
        self._file.close()
        self._file = open(self.path, "ab")  # noqa: SIM115 - kept open for the life of the driver

    def close(self) -> None:
        self._file.close()


def _division(checkpoint: int, operators: Sequence[str]) -> Division | None:
    return Division(checkpoint=checkpoint, operators=list(operators)) if operators else None


def _line(entry: dict[str, Any]) -> bytes:
    body = msgspec.json.encode(entry)
    return b'%s,"crc":"%08x"}\n' % (body[:-1], zlib.crc32(body))


def _whole(line: bytes) -> bytes:
    """The line, if it is as it was written. Raises `TypeError`."""
    found = _CHECKSUM.search(line)
    if found is not None and zlib.crc32(line[: found.start()] + b"}") != int(found[1], 16):
        raise TypeError("the line is not as it was written: its checksum is another")
    return line


def _fields(position: Position) -> dict[str, Any]:
    fields: dict[str, Any] = {"epoch": position.committed}
    if position.ahead:
        fields["ahead"] = position.ahead
    if position.restore:
        fields["restore"] = position.restore
    if position.checkpoint:
        fields["checkpoint"] = position.checkpoint
    if position.shadows:
        fields["shadows"] = position.shadows
    if position.acting:
        fields["acting"] = position.acting
    if position.branches:
        fields["branches"] = position.branches
    return fields


def _position(entry: dict[str, Any]) -> Position:
    if not isinstance(entry["epoch"], int):
        raise TypeError("`epoch` is not a number")
    return Position(
        entry["epoch"],
        msgspec.convert(entry.get("ahead", {}), dict[str, int]),
        msgspec.convert(entry.get("restore", {}), dict[str, int]),
        msgspec.convert(entry.get("checkpoint", 0), int),
        msgspec.convert(entry.get("shadows", {}), dict[str, tuple[str, int]]),
        msgspec.convert(entry.get("acting", {}), dict[str, str]),
        msgspec.convert(entry.get("branches", {}), dict[str, tuple[str, int]]),
    )
