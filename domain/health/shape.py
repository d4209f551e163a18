"""What is shown of the health of anything: a state, the word for it, the number that is judged. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Tone = Literal["good", "busy", "warn", "bad", "idle", "done"]
TONES: tuple[Tone, ...] = get_args(Tone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """state: for programs, never for people. word: what people read, everywhere the same. tone: how it looks.
    value, limit: the number that is judged and what it is judged by, None where there is none (a latency and
    its limit, available queries and all of them, returned queries and all that failed). note: a sentence
    that says more; "" if the word is enough."""

    state: str
    word: str
    tone: Tone
    value: float | None = None
    limit: float | None = None
    note: str = ""

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS = tuple(field.name for field in fields(Health))


def counted(number: float, one: str, many: str = "") -> str:
    """`1 query`, `3 queries`."""
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def seconds_words(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h`: an estimate is no more exact than that."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h"
