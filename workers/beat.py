"""The scheduler of `beat`."""

from __future__ import annotations

from typing import Any

import structlog
from celery.beat import Scheduler

log = structlog.get_logger(__name__)


class Beat(Scheduler):
    """Goes on where the clock is put back: Celery would send nothing, no sweep either, until it is as late
    again. It keeps nothing on disk, since the longest interval is a minute."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Instead of two tracebacks for each task: eight kilobytes, twice a second while Redis is away."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:
            log.error("not sent: see the process redis, or correct RESURGE_REDIS_URL", error=str(error))

    def tick(self, *arguments: Any, **options: Any) -> float:
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # what is due when is reckoned again
        seconds: float = super().tick(*arguments, **options)
        return seconds
