"""Words that are the same in many sentences."""

from __future__ import annotations

from collections.abc import Sequence


def some_of(names: Sequence[str], *, most: int = 5) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
