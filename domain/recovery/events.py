"""What can happen to an incident. Events are facts: they may be repeated, late or out of order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    """A node registered that has nothing to run yet, or a drained one may take partitions again."""

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
    """The driver's present status; repeated and late reports do no harm. `absent` partitions do not run,
    those `behind` run and have not caught up with the ones furthest ahead. refused: generation of a plan that
    it cannot apply, else 0; restorable: the checkpoints that it can go back to, 0 being the empty state.
    load, catch_up, not_gaining, acting: see `domain.messages.DriverStatus`. standing: replicas that could
    take over, by partition -> node. tentative: queries that go on without a part of their input -> the share
    of their output that is left."""

    at: float
    topology: str
    generation: int
    state: str
    head: int
    committed: int
    checkpoint: int
    absent: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    refused: int = 0
    restorable: frozenset[int] = frozenset()
    load: float = 0.0
    catch_up: float | None = None
    not_gaining: float = 0.0
    acting: Mapping[str, str] = field(default_factory=dict)
    standing: Mapping[str, str] = field(default_factory=dict)
    tentative: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted:
    at: float
    topology: str
    checkpoint: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """actor: the operator who asks; empty if by policy."""

    at: float
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAsked(_Order):
    """An operator wants a topology recovered now, with the nodes there are; with `checkpoint`, all of it put
    back to that one."""

    topology: str
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAsked(_Order):
    """An operator wants a living node emptied."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceAsked(_Order):
    """Partitions that run are to change their node: partition -> node."""

    topology: str
    moves: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkAsked(_Order):
    """These queries of a topology, and no others, are to be parked from now on. named: those of them that the
    actor named, which then do not return by policy. limits: node -> CPU percent that may be planned there
    until then, where more proved too much."""

    topology: str
    queries: frozenset[str]
    named: frozenset[str] = frozenset()
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveAsked(_Order):
    """An operator confirms a plan that was proposed; `proposal` names exactly one."""

    proposal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseAsked(_Order):
    """No new plans and no requests for nodes until resumed; what is under way goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeAsked(_Order):
    """Plan again, and ask for nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanAsked(_Order):
    """Discard what is planned and not applied, and look again now, with the nodes there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortAsked(_Order):
    """Recover nothing more: what is down stays down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptAsked(_Order):
    """Do not wait for failed queries any longer: their present latency is the usual one from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesAwaited:
    """These of the queries that failed are not available. queries: `topology/query`."""

    at: float
    queries: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyWithdrawn:
    """The topology is no longer to run, or a newer plan was deployed."""

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
    | RebalanceAsked
    | ParkAsked
    | ApproveAsked
    | PauseAsked
    | ResumeAsked
    | ReplanAsked
    | AbortAsked
    | AcceptAsked
    | QueriesAwaited
    | TopologyWithdrawn
    | Looked
)
