"""What the commands show: numbered progress with times, and the box at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any


class Progress:
    """One line per step. `quiet` shows nothing (tests)."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        if not self._quiet:
            sys.stdout.write(f"[{self.seconds:6.1f} s] {text}\n")
            sys.stdout.flush()

    def show(self, text: str) -> None:
        if not self._quiet:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


def topology_line(row: Mapping[str, Any]) -> str:
    """One topology of the REST interface in a few words."""
    available = f"{row['queries_available']} of {row['queries_total']} queries available"
    return f"{row['name']}: {row['status']}, {available}"


def box(lines: Iterable[str]) -> str:
    """The lines in a frame."""
    rows = list(lines)
    width = max(len(row) for row in rows)
    frame = "+" + "-" * (width + 2) + "+"
    return "\n".join(["", frame, *(f"| {row:<{width}} |" for row in rows), frame, ""])


def access_box(
    *, url: str, user: str, password: str, access_file: str, profile: str, stop: str, notes: Iterable[str]
) -> str:
    return box(
        (
            "Resurge is up",
            "",
            f"URL       {url}",
            f"User      {user}",
            f"Password  {password}",
            f"For tools {access_file}",
            f"Profile   {profile}",
            *notes,
            "",
            f"Stop      {stop}",
        )
    )
