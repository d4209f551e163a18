"""What clusters of other engines on this machine have in common: their environment, waiting for a state, and
what a log says last."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


def kept_environment() -> dict[str, str]:
    """What their processes have of this one's environment."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def last_words(log: Path) -> str:
    """The last three lines of a log that tell an error, or the last three."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "no log"
    bad = [line for line in lines if " ERROR " in line or "Exception" in line] or lines
    return " | ".join(bad[-3:])


def wait_for(
    predicate: Callable[[], object],
    what: str,
    *,
    timeout: float,
    log: Path,
    error: type[RuntimeError],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Wait until it is true; `check` may raise meanwhile. Raises `error` with the end of the log."""
    deadline = time.monotonic() + timeout
    while not predicate():
        check()
        if time.monotonic() > deadline:
            raise error(f"no {what} within {timeout:.0f} s: {last_words(log)}")
        time.sleep(0.25)
