"""The health of a topology: its status and how many of its queries are available. Pure."""

from __future__ import annotations

from domain.health.estimates import catch_up_words
from domain.health.queries import JUDGED, Counts
from domain.health.shape import Health, Tone, counted

_PLAIN: dict[str, tuple[str, Tone]] = {
    "draft": ("Draft", "idle"),
    "deploying": ("Deploying", "busy"),
    "running": ("Running", "good"),
    "degraded": ("Degraded", "warn"),
    "recovering": ("Recovering", "busy"),
    "paused": ("Paused", "idle"),
    "completed": ("Completed", "done"),
    "failed": ("Failed", "bad"),
    "stopping": ("Stopping", "busy"),
    "stopped": ("Stopped", "idle"),
}


def topology_health(*, status: str, queries: Counts, catch_up: float | None = None) -> Health:
    """catch_up: the driver's estimate in seconds, None if there is none. `running` is said only where
    every query is available or parked; without that it is `catching_up`."""
    word, tone = _PLAIN.get(status, (status, "idle"))
    if status not in JUDGED:
        return Health(state=status, word=word, tone=tone)
    state = status
    notes = []
    if status == "running" and queries.missing:
        state, word, tone = "catching_up", "Catching up", "busy"
    if queries.missing:
        tentative = f", {queries.tentative} of them tentative" if queries.tentative else ""
        notes.append(f"{counted(queries.missing, 'query', 'queries')} not available{tentative}")
        if estimate := catch_up_words(catch_up):
            notes.append(estimate)
    if queries.parked:
        notes.append(f"{counted(queries.parked, 'query', 'queries')} parked")
    return Health(
        state=state,
        word=word,
        tone=tone,
        value=queries.available,
        limit=queries.total,
        note="; ".join(notes),
    )
