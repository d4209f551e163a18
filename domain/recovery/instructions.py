"""What an incident wants done: carried out in order, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from domain.recovery.facts import Fact, fact_write
from domain.recovery.incident import State

EntryKind = Literal["stimulus", "evidence", "decision", "step", "outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Add a sentence to the story.

    fact: what a restarted coordinator must remember, if anything. outline: of the planner's explanation, with
    the sentence that tells a plan; only shown.
    """

    kind: EntryKind
    text: str
    fact: Fact | None = None
    outline: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """What is stored and shown with the sentence."""
        return dict(self.outline) if self.fact is None else fact_write(self.fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Involve:
    """The incident now concerns this topology."""

    topology: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepCosts:
    """Remember what partitions count for in this incident: topology -> partition -> CPU percent. Measured
    costs change while a topology replays; what a node may take must not, unless it has proved too much."""

    costs: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForNode:
    key: str
    lost_node: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUpRequest:
    """The asked node did not come, or is not needed any more."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePlan:
    """Record a plan if the topology's newest generation is still `expected`; publish it after the commit.
    `assignment` names only what is to run now. `buffering`: see `domain.messages.Plan`."""

    topology: str
    expected: int
    generation: int
    wave: int
    kind: Literal["recover", "restore", "move"]
    method: str
    rollback: bool
    buffering: bool
    checkpoint: int
    assignment: Mapping[str, str]
    restore: tuple[str, ...]
    reason: str
    explanation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPlan:
    topology: str
    generation: int
    state: Literal["published", "applied", "caught_up", "verified", "superseded"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPartitions:
    """Partitions of the topology (all, if None) are now in this state."""

    topology: str
    state: Literal["failed", "restoring", "replaying", "running"]
    partitions: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkParked:
    """These queries of a topology are parked, and no others."""

    topology: str
    queries: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForCheckpoint:
    """Have the driver take a global checkpoint now: it ends the incident sooner."""

    topology: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterState:
    state: State


Instruction = (
    Tell
    | Involve
    | KeepCosts
    | AskForNode
    | GiveUpRequest
    | CreatePlan
    | MarkPlan
    | MarkPartitions
    | MarkParked
    | AskForCheckpoint
    | EnterState
)
