"""A supervised process: its name, command, environment and readiness check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One process of an installation. `ready` answers at once, without raising, whether it serves;
    `priority` orders the start (low first) and, reversed, the stop. Ending within `settle` seconds
    counts as a failed start."""

    name: str
    command: tuple[str, ...]
    priority: int
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    settle: float = 1.0
    stop_wait: float = 10.0
    stop_signal: str = "TERM"
