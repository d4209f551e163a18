"""What every provider of nodes offers to the launcher, and to recovery for fault injection."""

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
class NodeWanted:
    """What a provider is asked for. `request` is the same in every repetition and never used for another
    node. `replacement`: recovery wants it, since `requested_at` (Unix time); the nodes that an installation
    starts with are no replacements, and no provider delays them on purpose."""

    request: str
    requested_at: float
    replacement: bool
    node: NodeDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    """A node that the provider has: its address and the process that leads it, where the provider knows them.
    `started`: its agent was started, while others are still being set up. Not `alive`: it has ended, and what
    is left of it awaits its release."""

    description: NodeDescription
    address: str
    pid: int
    alive: bool
    started: bool = True


class ProviderError(RuntimeError):
    """A node could not be acquired, released, listed or failed; the message says which and why."""


class NodeProvider(Protocol):
    """Every method is idempotent, since the launcher repeats its steps after a crash; every one raises
    `ProviderError` and returns within a time limit."""

    list_interval: float
    """Seconds from one listing by the launcher to the next; 0 where a listing costs nothing."""

    def describe(self) -> str:
        """What this provider is and how it is set up, for the log."""
        ...

    def acquire(self, wanted: NodeWanted) -> float | None:
        """Bring up a node, unless it runs already. None: its agent was started. A number: it comes later, and
        asking again before this moment (Unix time) is of no use."""
        ...

    def release(self, name: str, *, keep_disk: bool = False) -> None:
        """End a node in good order and clear away what is left of it, also of one that is dead or unknown.
        `keep_disk`: the installation stops, and `acquire` may bring the node back with its disk."""
        ...

    def nodes(self) -> list[RunningNode]:
        """Every node acquired and not released since, the dead ones with `alive=False`."""
        ...

    def fail(self, name: str) -> bool:
        """Kill a node without warning (fault injection); False when it was dead."""
        ...
