"""When something will be over, in words; the server reckons."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cli.words import duration, moment

WAITS = {
    "nodes": "nodes",
    "start": "executors and checkpoint",
    "replay": "replay",
    "settle": "steady latency",
}


def waits_for(stage: str) -> str:
    return WAITS.get(stage, stage)


def over_words(incident: Mapping[str, Any], now: datetime | None = None) -> str:
    """Of an incident that is open: `about 40 s (25 s to 1 min 10 s)`; empty where nothing is expected."""
    over = incident.get("forecast", {}).get("over")
    if not over:
        held = incident.get("forecast", {}).get("held", "")
        return f"no estimate: {held}" if held else ""
    at = now or datetime.now(UTC)
    expected, low, high = (_left(over[name], at) for name in ("expected_at", "low_at", "high_at"))
    if high < 1:
        return "longer than expected"
    about = f"about {_about(expected)}" if expected >= 1 else "any moment"
    span = f"within {_about(high)}" if low < 1 else f"{_about(low)} to {_about(high)}"
    return f"{about} ({span})"


def _about(seconds: float) -> str:
    """An estimate is no more exact than seconds."""
    return duration(seconds) if seconds >= 9.5 else f"{max(1, round(seconds))} s"


def _left(text: Any, now: datetime) -> float:
    found = moment(text)
    return (found - now).total_seconds() if found is not None else 0.0
