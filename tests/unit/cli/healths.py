"""Health as the server tells it."""

from __future__ import annotations

from typing import Any


def health_of(state: str, word: str = "", **judged: float) -> dict[str, Any]:
    told = {"state": state, "word": word or state.capitalize(), "tone": "good", "note": "", "since": None}
    return {**told, "value": None, "limit": None, **judged}
