"""What every provider of nodes offers to the launcher and to recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """A node that is to exist: `slots` are the cores of each topology's executor on it, `capacity` is
    in CPU percent (100 is one core)."""

    name: str
    rack: str
    slots: int = 2
    capacity: int = 100
    standby: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    """A node that was launched: its address and the process that leads it, if the provider knows it."""

    description: NodeDescription
    address: str
    pid: int
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderDescription:
    """For people: the provider's name, what it does, and whether it can fail a node on request."""

    name: str
    text: str
    can_fail: bool


class ProviderError(RuntimeError):
    """A node could not be started, ended or failed; the message says which, why and what to do."""


class NodeProvider(Protocol):
    """Every method is idempotent, since recovery repeats its steps after a crash."""

    def describe(self) -> ProviderDescription:
        """What this provider is."""
        ...

    def request(self, *, key: str, requested_at: float) -> float:
        """Ask for one replacement node; returns when it is due (Unix time). The same `key` always gets
        the same delay."""
        ...

    def launch(self, node: NodeDescription) -> RunningNode:
        """Start a node that is due, unless it runs already. Raises `ProviderError`."""
        ...

    def nodes(self) -> list[RunningNode]:
        """Every node launched here and not ended since, the dead ones with `alive=False`."""
        ...

    def fail(self, name: str) -> bool:
        """Kill a node without warning (fault injection); False when it was dead. Raises `ProviderError`."""
        ...

    def end(self, name: str, *, grace: float = 5.0) -> None:
        """End a node in good order and forget it."""
        ...

    def halt(self, name: str, *, grace: float = 5.0) -> None:
        """End a node in good order; `launch` brings it back with its disk."""
        ...

    def forget(self, name: str) -> None:
        """Clear away what a dead node has left: processes, record, disk."""
        ...
