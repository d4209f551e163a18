"""Numbers, times and texts for operators. An unknown value is a dash, never a zero."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

DASH = "–"
_DIGITS = re.compile(r"(\d+)")


def plain(text: object) -> str:
    """`text` on one line, without characters that a terminal would act upon: texts come from elsewhere."""
    return "".join(
        char if char.isprintable() else " " if char in "\t\n\r" else "\ufffd" for char in str(text)
    )


def count(value: float | None) -> str:
    return DASH if value is None else f"{round(value):,}"


def rate(value: float | None) -> str:
    """Tuples per second: 980, 12.4k, 1.20M."""
    if value is None:
        return DASH
    if value >= 999_500:
        return f"{value / 1e6:.{2 if value < 1e7 else 1}f}M"
    return f"{value / 1e3:.1f}k" if value >= 9_995 else count(value)


def size(value: float | None) -> str:
    """Bytes: 512 B, 2.3 MB."""
    if value is None:
        return DASH
    units = ("B", "KB", "MB", "GB", "TB")
    step = 0
    while value >= 1000 and step < len(units) - 1:
        value /= 1000
        step += 1
    return f"{value:.1f} {units[step]}" if step and value < 10 else f"{round(value)} {units[step]}"


def duration(seconds: float | None) -> str:
    """240 ms, 1.42 s, 42 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds is None:
        return DASH
    value = max(0.0, seconds)
    if value < 0.9995:
        return f"{round(value * 1000)} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 59.5:
        return f"{round(value)} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def share(value: float) -> str:
    """1.23 %; what is there and too small to be shown is not 0."""
    return "less than 0.01 %" if 0 < value < 0.0001 else f"{100 * value:.2f} %"


def stopwatch(seconds: float) -> str:
    """0:42, 12:05, 1:03:20."""
    total = max(0, int(seconds))
    hours, minutes, rest = total // 3600, total % 3600 // 60, total % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def age(seconds: float | None) -> str:
    if seconds is None:
        return DASH
    if seconds < 1:
        return "now"
    return f"{int(seconds)} s ago" if seconds < 60 else f"{duration(seconds)} ago"


def relative(value: float | None) -> str:
    """A latency as a multiple of the one before the failure."""
    if value is None:
        return DASH
    if value >= 1000:
        return ">999×"
    return f"{round(value)}×" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f}×"


def percent(share: float | None) -> str:
    return DASH if share is None else f"{share * 100:.0f} %"


def moment(text: Any) -> datetime | None:
    """An ISO 8601 time as REST writes it; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def since(text: Any, now: datetime | None = None) -> float | None:
    """Seconds from an ISO time until `now`."""
    at = moment(text)
    return None if at is None else max(0.0, ((now or datetime.now(UTC)) - at).total_seconds())


def between(start: Any, end: Any) -> float | None:
    first, last = moment(start), moment(end)
    return None if first is None or last is None else (last - first).total_seconds()


def clock(text: Any, now: datetime | None = None) -> str:
    """The local time of day, with the date when that is not today, and with the year when it is not this
    one."""
    at = moment(text)
    if at is None:
        return DASH
    local = at.astimezone()
    today = (now or datetime.now(UTC)).astimezone().date()
    if local.date() == today:
        return local.strftime("%H:%M:%S")
    return local.strftime("%d %b %H:%M:%S" if local.year == today.year else "%d %b %Y %H:%M:%S")


def plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def by_name(name: str) -> list[tuple[int, str]]:
    """Sort key: O2[0] before O10[0]."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in _DIGITS.split(name)]


def listed(names: Iterable[str], most: int = 8) -> str:
    """node-1, node-2 and 6 more."""
    ordered = sorted(names, key=by_name)
    if len(ordered) <= most:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:most])} and {len(ordered) - most} more"


def sparkline(points: Sequence[tuple[float, float]], end: float, width: int = 24) -> str:
    """A share from 0 to 1 over time, as a row of bars. points: (time, value from then on), in order."""
    bars = "▁▂▃▄▅▆▇█"
    drawn = ""
    for column in range(width if points else 0):
        at = end * column / (width - 1)
        value = next((share for start, share in reversed(points) if start <= at), points[0][1])
        drawn += bars[min(7, max(0, round(value * 7)))]
    return drawn
