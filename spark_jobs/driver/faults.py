"""Partitions whose operator, sink or state failed: left alone for a moment, then tried again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from domain.execution.job import PartitionReport

log = structlog.get_logger()
RETRY_INTERVAL = 2.0


class Faults:
    """`errors`: partition -> when to try again and what went wrong. `problem(where, what, hint)` tells it."""

    def __init__(self, clock: Callable[[], float], problem: Callable[[str, str, str], None]) -> None:
        self.errors: dict[str, tuple[float, str]] = {}
        self._clock = clock
        self._problem = problem
        self._replay_from = float("-inf")

    @property
    def held(self) -> set[str]:
        """Those to leave alone now."""
        now = self._clock()
        return {partition for partition, (retry_at, _) in self.errors.items() if retry_at > now}

    @property
    def replay_held(self) -> bool:
        """Old epochs could not be computed again a moment ago."""
        return self._clock() < self._replay_from

    @property
    def first(self) -> str:
        return next(iter(self.errors.values()), (0.0, ""))[1]

    def clear(self) -> None:
        self.errors.clear()
        self._replay_from = float("-inf")

    def take(self, results: Mapping[str, PartitionReport]) -> None:
        """What became of the partitions in a job. State that a node does not have is restored, which is
        told and needs no retry."""
        for partition, result in results.items():
            if not result.error:
                if self.errors.pop(partition, None):
                    log.info("partition works again", partition=partition)
                continue
            self._failed(partition, result.error, result.hint)
            if result.missing:
                del self.errors[partition]

    def forks(self, errors: Mapping[str, str]) -> None:
        """Partitions that could not replay for others; they themselves are well."""
        for partition, error in errors.items():
            self._replay_from = self._clock() + RETRY_INTERVAL
            log.error("replay failed", partition=partition, error=error)
            self._problem(
                partition, f"replay for others failed: {error}", "It is tried again; nothing is lost."
            )

    def _failed(self, partition: str, error: str, hint: str) -> None:
        before = self.errors.get(partition)
        self.errors[partition] = (self._clock() + RETRY_INTERVAL, error)
        if before is None or before[1] != error:
            log.error("partition failed", partition=partition, error=error)
            self._problem(partition, error, hint or "It is tried again every few seconds; nothing is lost.")
