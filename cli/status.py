"""One vocabulary for every state: a colour, a sign for readers who cannot see the colour, and the word
itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cli.words import DASH, plain

if TYPE_CHECKING:
    from rich.text import Text

DOWN = frozenset({"failed", "recovering", "tentative", "starting", "parked"})
"""Queries that should give results and do not."""
ENDED = frozenset({"recovered", "moved", "incomplete", "aborted"})
"""Of the health of an incident: nothing more is done for it."""
HISTORY = frozenset({"replaced", "gone"})
"""Of the health of a node: nothing waits for it."""
GOOD, BUSY, WARN, BAD, IDLE, DONE = "green", "blue", "yellow", "red", "dim", "check"
SIGNS = {GOOD: "●", BUSY: "◐", WARN: "▲", BAD: "✗", IDLE: "○", DONE: "✓"}

TONES: dict[str, dict[str, str]] = {
    "topology": {
        "draft": IDLE, "deploying": BUSY, "running": GOOD, "degraded": WARN, "recovering": BUSY,
        "paused": IDLE, "completed": DONE, "failed": BAD, "stopping": BUSY, "stopped": IDLE,
    },
    "partition": {
        "starting": BUSY, "running": GOOD, "stalled": WARN, "failed": BAD, "restoring": BUSY,
        "replaying": BUSY,
    },
    "query": {
        "starting": BUSY, "available": GOOD, "failed": BAD, "recovering": BUSY, "tentative": WARN,
        "parked": IDLE, "completed": DONE,
    },
    "node": {
        "requested": IDLE, "joining": BUSY, "alive": GOOD, "suspect": WARN, "lost": BAD, "draining": WARN,
        "left": IDLE,
    },
    "incident": {
        "open": BAD, "acquiring": BUSY, "restoring": BUSY, "replaying": BUSY, "verifying": BUSY,
        "catching_up": BUSY, "closed": DONE, "aborted": IDLE,
    },
    "wave": {
        "proposed": WARN, "planned": IDLE, "published": BUSY, "replaying": BUSY, "catching up": BUSY,
        "caught up": GOOD, "verified": DONE, "superseded": IDLE,
    },
    "checkpoint": {"started": BUSY, "completed": GOOD, "failed": BAD, "undone": IDLE},
    "savepoint": {"making": BUSY, "complete": GOOD, "failed": BAD},
    "operation": {"pending": IDLE, "running": BUSY, "succeeded": DONE, "failed": BAD},
    "severity": {"warning": WARN, "error": BAD},
    "urgency": {"warning": WARN, "critical": BAD},
    "alert": {"missing": WARN, "pending": BUSY, "firing": BAD, "resolved": DONE},
    "rule": {"enabled": GOOD, "off": IDLE},
    "silence": {"lasts": BUSY, "ended": IDLE},
    "webhook": {"enabled": GOOD, "failing": WARN, "disabled": IDLE, "disabled by the system": BAD},
    "delivery": {"pending": BUSY, "succeeded": DONE, "given_up": BAD},
}  # fmt: skip


def tone(kind: str, value: str | None) -> str:
    """A colour of rich; states that a newer server may have are shown without one."""
    return TONES[kind].get(value or "", IDLE)


_LOOKS = {"good": GOOD, "busy": BUSY, "warn": WARN, "bad": BAD, "idle": IDLE, "done": DONE}


def look(row: Mapping[str, Any]) -> str:
    """The colour of the health of a topology, query, node or incident."""
    return _LOOKS.get(str(row["health"]["tone"]), IDLE)


def health(row: Mapping[str, Any], words: str = "") -> Text:
    """The server's word for the health of a topology, query, node or incident (or other `words`)."""
    from rich.text import Text

    found = look(row)
    word = plain(words or row["health"]["word"])
    return Text(f"{SIGNS[found]} {word}", style=GOOD if found == DONE else found)


def state(kind: str, value: str | None, words: str = "") -> Text:
    """The sign and the word (or other `words`), coloured."""
    from rich.text import Text

    if not value:
        return Text(DASH)
    found = tone(kind, value)
    return Text(f"{SIGNS[found]} {plain(words or value)}", style=GOOD if found == DONE else found)
