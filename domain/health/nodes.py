"""The health of a node. Pure."""

from __future__ import annotations

from domain.health.shape import Health, Tone

GONE = frozenset({"lost", "left"})
HISTORY = frozenset({"replaced", "gone"})
"""States in which a node is history: no page counts it or has it in the way."""

_PLAIN: dict[str, tuple[str, Tone]] = {
    "requested": ("Requested", "idle"),
    "joining": ("Joining", "busy"),
    "alive": ("Alive", "good"),
    "suspect": ("Suspect", "warn"),
    "lost": ("Lost", "bad"),
    "draining": ("Draining", "warn"),
    "left": ("Left", "idle"),
}


def node_health(*, state: str, awaited: bool) -> Health:
    """awaited: whether an open incident recovers from its loss, or a partition is still placed there. One
    that is gone and not awaited is history."""
    if state in GONE and not awaited:
        if state == "lost":
            note = "its partitions run elsewhere"
            return Health(state="replaced", word="Lost, replaced", tone="idle", note=note)
        return Health(state="gone", word="Left", tone="idle")
    word, tone = _PLAIN.get(state, (state, "idle"))
    return Health(state=state, word=word, tone=tone)
