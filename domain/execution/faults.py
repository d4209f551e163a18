"""Partitions whose operator, sink or state failed: left alone for a moment, then tried again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from domain.execution.instructions import Note, TellProblem
from domain.execution.job import PartitionReport

RETRY_INTERVAL = 2.0


@dataclass(slots=True)
class Faults:
    """`errors`: partition -> when to try again and what went wrong."""

    errors: dict[str, tuple[float, str]] = field(default_factory=dict)
    _replay_from: float = float("-inf")

    def held(self, at: float) -> set[str]:
        """Those to leave alone now."""
        return {partition for partition, (retry_at, _) in self.errors.items() if retry_at > at}

    def replay_held(self, at: float) -> bool:
        """Old epochs could not be computed again a moment ago."""
        return at < self._replay_from

    @property
    def first(self) -> str:
        return next(iter(self.errors.values()), (0.0, ""))[1]

    def clear(self) -> None:
        self.errors.clear()
        self._replay_from = float("-inf")

    def forget(self, partitions: Iterable[str]) -> None:
        """What these failed for is done away with: they may be tried again at once."""
        for partition in partitions:
            self.errors.pop(partition, None)

    def take(self, results: Mapping[str, PartitionReport], at: float) -> list[TellProblem | Note]:
        """What became of the partitions in a job. State that a node does not have is restored, which is
        told and needs no retry."""
        told: list[TellProblem | Note] = []
        for partition, result in results.items():
            if not result.error:
                if self.errors.pop(partition, None):
                    told.append(Note("partition works again", {"partition": partition}))
                continue
            told += self._failed(partition, result, at)
            if result.missing:
                del self.errors[partition]
        return told

    def forks(self, errors: Mapping[str, str], at: float) -> list[TellProblem | Note]:
        """Partitions that could not replay for others; they themselves are well."""
        told: list[TellProblem | Note] = []
        for partition, error in errors.items():
            self._replay_from = at + RETRY_INTERVAL
            told.append(Note("replay failed", {"partition": partition, "error": error}, warning=True))
            told.append(
                TellProblem(
                    partition, f"replay for others failed: {error}", "It is tried again; nothing is lost."
                )
            )
        return told

    def _failed(self, partition: str, result: PartitionReport, at: float) -> list[TellProblem | Note]:
        before, error = self.errors.get(partition), result.error
        self.errors[partition] = (at + RETRY_INTERVAL, error)
        if before is not None and before[1] == error:
            return []
        hint = result.hint or "It is tried again every few seconds; nothing is lost."
        return [
            Note("partition failed", {"partition": partition, "error": error}, warning=True),
            TellProblem(partition, error, hint, result.row),
        ]
