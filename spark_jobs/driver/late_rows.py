"""Rows that came behind the watermark: counted by the partitions that left them out, told and listed here.

Partitions count in their state, so that a row is counted once however often its epoch is replayed. What was
told is kept beside the list, so that the next driver goes on from there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import structlog

from domain.execution.job import LateRow, TaskReport
from domain.messages import ProblemReport
from domain.topology import Topology, split_partition
from domain.topology.copies import is_copy
from host.durable import write_or_remove
from spark_jobs.sources.idleness import idle_after
from spark_jobs.sources.lateness import lateness_us
from spark_jobs.sources.problems import CUT

log = structlog.get_logger()
LISTED: Final = 1_000
"""Rows of a deployment that are named one by one."""
PAUSE_S: Final = 10.0
DROPPED: Final = "rows came behind the watermark that the operator had passed, and were left out"


class LateRows:
    """`directory` is that of the topology; `late.jsonl` in it names the first rows that sources cut."""

    def __init__(self, topology: Topology, directory: Path, send: Callable[[ProblemReport], None]) -> None:
        self.path = directory / "late.jsonl"
        self._told_path = directory / "late-told.json"
        self._topology = topology
        self._send = send
        self._counted: dict[str, int] = {}
        self._told = self._read_told()
        self._listed, self._names = 0, set[tuple[str, int]]()
        self._read_listed()
        self._next = float("-inf")

    def take(self, reports: Iterable[TaskReport], at: float, *, final: bool = False) -> None:
        """What tasks said, at this time in Unix seconds. A problem grows at most every ten seconds, unless
        the input has been read to its `final` epoch: a driver that is killed then has no successor to whom
        partitions report again."""
        for task in reports:
            for partition, report in task.partitions.items():
                if is_copy(partition):
                    continue
                if report.late > self._counted.get(partition, self._told.get(partition, 0)):
                    self._counted[partition] = report.late
                if report.late_rows:
                    self._list(partition, report.late_rows)
        if self._counted and (final or at >= self._next):
            self._next = at + PAUSE_S
            self.tell()

    def tell(self) -> None:
        """Send how many there are that were not told yet."""
        more: Counter[str] = Counter()
        for partition, count in self._counted.items():
            more[split_partition(partition)[0]] += count - self._told.get(partition, 0)
        self._told |= self._counted
        self._counted.clear()
        for operator, count in sorted(more.items()):
            self._send(self._problem(operator, count))
        if more:
            self._write(self._told_path, msgspec.json.encode(self._told))

    def _problem(self, operator: str, count: int) -> ProblemReport:
        spec = self._topology.by_name[operator]
        what, hint = DROPPED, "An operator before it gives rows older event times than it got."
        if not spec.inputs:
            seconds = lateness_us(spec.params) / 1e6
            what = CUT
            idle = idle_after(spec.params)
            raised = f"`lateness_s` ({seconds:g} s)"
            if idle is not None:
                raised += f" or `idle_after_s` ({idle:g} s)"
            hint = (
                f"The first are listed in {self.path}. If they should count, raise the source's {raised}"
                " and deploy the topology again."
            )
        return ProblemReport(
            topology=self._topology.name,
            where=operator,
            what=what,
            hint=hint,
            severity="warning",
            count=count,
        )

    def _list(self, partition: str, rows: Iterable[LateRow]) -> None:
        """A replay reports the rows of an epoch again."""
        new = [row for row in rows if (partition, row.epoch) not in self._names]
        lines: list[bytes] = []
        for row in new[: LISTED - self._listed]:
            self._names.add((partition, row.epoch))
            lines.append(msgspec.json.encode({"partition": partition, **msgspec.to_builtins(row)}) + b"\n")
        self._listed += len(lines)
        if lines:
            try:
                with self.path.open("ab") as file:
                    file.write(b"".join(lines))
            except OSError as error:  # the count goes on
                log.warning("late rows not listed", path=str(self.path), error=str(error))

    def _read_listed(self) -> None:
        """A line torn by a crash counts as one that names nothing."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return
        self._listed = len(lines)
        for line in lines:
            try:
                entry = msgspec.json.decode(line, type=dict[str, object])
            except msgspec.MsgspecError:
                continue
            partition, epoch = entry.get("partition"), entry.get("epoch")
            if isinstance(partition, str) and isinstance(epoch, int):
                self._names.add((partition, epoch))

    def _read_told(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(self._told_path.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _write(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            write_or_remove(temporary, content)
            temporary.replace(path)
        except OSError as error:  # then the next driver tells them again
            log.warning("count of late rows not kept", path=str(path), error=str(error))
