"""Sinks: where the rows of output operators go, each row once.

A partition is as far as its outputs are in their place, so an epoch may be written several times: by a task
that Spark repeats, in a replay, by another attempt. The driver commits an epoch when every
partition has applied it and the epoch log says so; from then on readers see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class SinkError(Exception):
    """An output cannot be written; the error says where, why, and what to do."""

    def __init__(self, where: str, what: str, hint: str) -> None:
        super().__init__(where, what, hint)
        self.where = where
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.hint}"


@dataclass(frozen=True, slots=True)
class Written:
    """What an epoch has stored."""

    rows: int
    bytes: int


class TaskOutputs(Protocol):
    """What one task writes."""

    def write(self, operator: str, partition: int, epoch: int, table: pa.Table | None) -> Written:
        """One epoch's rows of one query, to take the place of those that are stored. Raises `SinkError`."""

    def write_tentative(
        self, operator: str, partition: int, epoch: int, table: pa.Table | None, fidelity: float
    ) -> Written:
        """One epoch's rows of a query that lacks a part of its input, for readers who ask for tentative rows.
        fidelity: the share of the output that is left, 0 to 1. Raises `SinkError`."""

    def leave_out(self, epochs: Mapping[str, range]) -> None:
        """By query, epochs that have passed without it: no rows that an attempt before this one has written,
        or still writes, count. Raises `SinkError`."""

    def settle(self) -> dict[str, tuple[int, SinkError]]:
        """At the end of the task: what was written is in its place, and survives a crash of the host.
        Returns, by partition for which that failed, the first epoch that is not in its place, and why."""


class Sink(Protocol):
    """Of one topology. `outputs` is called in tasks on the nodes, everything else in the driver."""

    def forget(self, *, deployed: int, after: int) -> None:
        """Before `prepare`: remove what was written of the epochs after one, none of which was committed.
        Tasks of earlier drivers that go on can write nothing more. Raises `SinkError`."""

    def outputs(self, *, deployed: int, attempt: int, life: int) -> TaskOutputs:
        """deployed: of the task; what is written for another deployment than that of `prepare` never counts.
        attempt: grows with every replay if rows may differ between replays, else 0; the highest counts. life:
        of the driver that the task works for; once a later one was prepared, nothing of it counts."""

    def prepare(self, *, deployed: int, life: int, written: bool = False) -> None:
        """A driver begins to work on the deployment with this generation; called once in its life, which has
        a greater number than those before. written: epochs of it were committed before. Raises
        `SinkError`."""

    def commit(self, *, epoch: int) -> None:
        """Show readers all epochs up to this one; repeated after a crash. Raises `SinkError`."""

    def settle(self, *, epoch: int) -> None:
        """No epoch up to this one will be written again, so what is stored may be put in order."""

    def close(self) -> None:
        """The driver ends."""
