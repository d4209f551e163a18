"""The vocabulary of an incident: its state, what can happen to it, and what must be done.

An incident covers several topologies. For each there is a `TopologyCase`, whose phase says how far its
present wave is; the state of the incident is that of its least advanced case. Incremental recovery adds
waves to a case (a plan that covers some of `failed` and leaves the rest), not other phases.

The story of an incident is also its memory: what cannot be read from plans and nodes (which partitions
were lost, which node came back, who asked for what) is a `Tell` with a `fact`, stored with the sentence
that tells it and recalled when a coordinator starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from controlplane.domain.topology.graph import Topology


class Phase(StrEnum):
    """Where a topology stands in an incident."""

    FAILED = "failed"  # partitions are down and no plan covers them
    PLANNED = "planned"  # a plan is recorded, not yet in ZooKeeper
    PUBLISHED = "published"  # the plan is in ZooKeeper; the driver has not applied it
    REPLAYING = "replaying"  # applied; the driver works through what was missed
    VERIFYING = "verifying"  # caught up; the next global checkpoint is awaited
    VERIFIED = "verified"  # that checkpoint is complete
    DROPPED = "dropped"  # nothing left to recover here: undeployed, redeployed, or the nodes came back


class State(StrEnum):
    """Where an incident stands; the values are those of the database."""

    OPEN = "open"
    ACQUIRING = "acquiring"
    RESTORING = "restoring"
    REPLAYING = "replaying"
    VERIFYING = "verifying"
    CLOSED = "closed"
    ABORTED = "aborted"


ENDED_PHASES = frozenset({Phase.VERIFIED, Phase.DROPPED})
PLAN_PHASES = frozenset({Phase.PLANNED, Phase.PUBLISHED, Phase.REPLAYING, Phase.VERIFYING})
ENDED_STATES = frozenset({State.CLOSED, State.ABORTED})


@dataclass(slots=True, kw_only=True)
class NodeView:
    """A node as recovery sees it. `usable`: alive, not draining, not a standby."""

    name: str
    alive: bool
    usable: bool
    capacity: float = 100.0
    rack: str = ""


@dataclass(slots=True, kw_only=True)
class Deployment:
    """A deployed topology and the newest plan recorded for it, of whatever kind.

    costs: CPU percent of each measured partition. latest: newest complete checkpoint, 0 if none.
    """

    topology: Topology
    generation: int
    assignment: dict[str, str]
    costs: dict[str, float] = field(default_factory=dict)
    latest: int = 0
    priorities: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class TopologyCase:
    """One topology in an incident. `failed`: partitions down and covered by no plan; `forced`: plan even
    if nothing is down (an operator asked). `restore`: what its plan is to restore; `unrestored`: those of
    `failed` that a superseded plan was to restore. `generation`, `wave`, `checkpoint` are its last plan's."""

    name: str
    phase: Phase = Phase.FAILED
    generation: int = 0
    wave: int = 0
    checkpoint: int = 0
    failed: set[str] = field(default_factory=set)
    restore: frozenset[str] = frozenset()
    unrestored: set[str] = field(default_factory=set)
    forced: bool = False
    story: list[tuple[float, str, str]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Request:
    """A replacement asked of the provider for `lost_node`; `attempt` counts from 1."""

    key: str
    lost_node: str
    attempt: int
    state: Literal["pending", "started", "joined", "failed"] = "pending"
    node: str = ""
    started_at: float | None = None


# ---- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesLost:
    """Nodes were given up; node name -> evidence."""

    at: float
    nodes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsLost:
    """A driver keeps reporting partitions absent although their nodes live."""

    at: float
    topology: str
    generation: int
    partitions: frozenset[str]
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReturned:
    """A lost node is back under a new session and its processes never stopped."""

    at: float
    node: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeArrived:
    """A node registered that has nothing to run yet."""

    at: float
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPublished:
    at: float
    topology: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefused:
    """ZooKeeper already holds a plan of a higher generation."""

    at: float
    topology: str
    generation: int
    in_force: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverReported:
    """The driver's present status; repeated and late reports do no harm."""

    at: float
    topology: str
    generation: int
    state: str
    head: int
    committed: int
    checkpoint: int
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted:
    at: float
    topology: str
    checkpoint: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAsked:
    """An operator wants a topology recovered now, with the nodes there are."""

    at: float
    topology: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAsked:
    """An operator wants a living node emptied."""

    at: float
    node: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortAsked:
    at: float
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyWithdrawn:
    """The topology is no longer to run, or somebody deployed a newer plan."""

    at: float
    topology: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Time passed; look again at what can be done."""

    at: float


Event = (
    NodesLost
    | PartitionsLost
    | NodeReturned
    | NodeArrived
    | PlanPublished
    | PlanRefused
    | DriverReported
    | CheckpointCompleted
    | RecoveryAsked
    | DrainAsked
    | AbortAsked
    | TopologyWithdrawn
    | Looked
)


# ---- instructions --------------------------------------------------------------------------------

EntryKind = Literal["stimulus", "evidence", "decision", "step", "outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Add a sentence to the story. `fact`, if any, is what a restarted coordinator must remember."""

    kind: EntryKind
    text: str
    fact: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Involve:
    """The incident now concerns this topology."""

    topology: str


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
    """Record a plan if the topology's newest generation is still `expected`; publish it after the commit."""

    topology: str
    expected: int
    generation: int
    wave: int
    kind: Literal["recover", "restore"]
    rollback: bool
    checkpoint: int
    assignment: Mapping[str, str]
    restore: tuple[str, ...]
    reason: str
    explanation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPlan:
    topology: str
    generation: int
    state: Literal["published", "applied", "verified", "superseded"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPartitions:
    """Partitions of the topology (all, if None) are now in this state."""

    topology: str
    state: Literal["failed", "restoring", "replaying", "running"]
    partitions: frozenset[str] | None = None


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
    | AskForNode
    | GiveUpRequest
    | CreatePlan
    | MarkPlan
    | MarkPartitions
    | AskForCheckpoint
    | EnterState
)
