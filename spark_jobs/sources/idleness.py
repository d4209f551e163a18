"""Sources that give nothing for a while: after `idle_after_s` they hold the watermark back no longer.

The watermark of an epoch is the least of all sources, since a row of the one furthest behind may still come.
A source without rows would therefore keep the windows of all others open for ever. With `idle_after_s` it is
left out once its offset has stood still for that long (as in Flink's `withIdleness`), and counts again from
the epoch in which it moves. Rows that it then gives behind the watermark are late like any others.

Only the driver decides, by its clock and what the reader says; the epoch log has the outcome, so every replay
has the same. An offset that stands still between two questions shows that nothing came meanwhile, however
long the engine was away: a failure makes no source idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

MAX_IDLE_S: Final = 86_400.0


def idle_after(params: Mapping[str, Any]) -> float | None:
    """Seconds; None: the source is never idle."""
    given = params.get("idle_after_s")
    return None if given is None else float(given)


def idleness_problems(params: Mapping[str, Any]) -> list[str]:
    value = params.get("idle_after_s")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (number and 0 < value <= MAX_IDLE_S):
        return []
    return [f"idle_after_s must be a number of seconds above 0 and up to {MAX_IDLE_S:.0f}, not {value!r}"]


class Idleness:
    """When each source last moved. `sources`: their parameters by name; `idle`: those that were idle in the
    newest epoch of the log, and are so until they move; `clock` gives Unix time."""

    def __init__(
        self, sources: Mapping[str, Mapping[str, Any]], idle: Collection[str], clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._after = {name: idle_after(params) for name, params in sources.items()}
        self._moved_at = dict.fromkeys(idle, float("-inf"))

    def is_idle(self, name: str, *, moved: bool) -> bool:
        """The reader was asked just now, and had something new or not. The first question starts the time."""
        after = self._after[name]
        if after is None:
            return False
        at = self._clock()
        since = self._moved_at.setdefault(name, at)
        if moved:
            self._moved_at[name] = at
            return False
        return at - since >= after
