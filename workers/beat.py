"""The scheduler of `beat`."""

from __future__ import annotations

from typing import Any

from celery.beat import Scheduler


class Beat(Scheduler):
    """Goes on where the clock is put back: Celery would send nothing, no sweep either, until it is as late
    again. It keeps nothing on disk, since the longest interval is a minute."""

    def tick(self, *arguments: Any, **options: Any) -> float:
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # what is due when is reckoned again
        seconds: float = super().tick(*arguments, **options)
        return seconds
