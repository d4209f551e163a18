"""Waiting for a state, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Errors = tuple[type[Exception], ...]


def eventually(
    condition: Callable[[], T],
    what: str = "the condition",
    timeout: float = 30.0,
    *,
    pause: float = 0.05,
    not_yet: Errors = (),
    story: Callable[[], str] | None = None,
) -> T:
    """Wait until `condition()` is true, and return its value. Errors in `not_yet` count as not yet.

    Raises `AssertionError` after `timeout` seconds, naming `what`, what the condition gave last, and what
    `story()` tells.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            last = value = condition()
            if value:
                return value
        except not_yet as error:
            last = error
        if time.monotonic() > deadline:
            told = f"\n{story()}" if story else ""
            raise AssertionError(f"{what}: not within {timeout:g} s (last: {last!r}){told}")
        time.sleep(pause)
