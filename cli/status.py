"""One vocabulary for every state: a colour, a sign for readers who cannot see the colour, and the word
itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.words import DASH, plain

if TYPE_CHECKING:
    from rich.text import Text

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
        "starting": BUSY, "available": GOOD, "failed": BAD, "recovering": BUSY, "parked": IDLE,
        "completed": DONE,
    },
    "node": {
        "requested": IDLE, "joining": BUSY, "alive": GOOD, "suspect": WARN, "lost": BAD, "draining": WARN,
        "left": IDLE,
    },
    "incident": {
        "open": BAD, "acquiring": BUSY, "restoring": BUSY, "replaying": BUSY, "verifying": BUSY,
        "closed": DONE, "aborted": IDLE,
    },
    "wave": {
        "proposed": WARN, "planned": IDLE, "published": BUSY, "replaying": BUSY, "catching up": BUSY,
        "caught up": GOOD, "verified": DONE, "superseded": IDLE,
    },
    "checkpoint": {"started": BUSY, "completed": GOOD, "failed": BAD, "undone": IDLE},
    "operation": {"pending": IDLE, "running": BUSY, "succeeded": DONE, "failed": BAD},
    "severity": {"warning": WARN, "error": BAD},
    "webhook": {"enabled": GOOD, "failing": WARN, "disabled": IDLE, "disabled by the system": BAD},
    "delivery": {"pending": BUSY, "succeeded": DONE, "given_up": BAD},
}  # fmt: skip


def tone(kind: str, value: str | None) -> str:
    """A colour of rich; states that a newer server may have are shown without one."""
    return TONES[kind].get(value or "", IDLE)


def state(kind: str, value: str | None, words: str = "") -> Text:
    """The sign and the word (or other `words`), coloured."""
    from rich.text import Text

    if not value:
        return Text(DASH)
    found = tone(kind, value)
    return Text(f"{SIGNS[found]} {plain(words or value)}", style=GOOD if found == DONE else found)
