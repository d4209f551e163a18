"""The vocabulary of an incident: where it and its topologies stand, and what recovery sees of the world.

An incident covers several topologies. For each there is a `TopologyCase`, whose phase says how far its
present wave is; the state of the incident is that of its least advanced case. Incremental recovery adds
waves to a case (a plan that covers some of `failed` and leaves the rest), not other phases. What can happen
is in `events`, what must be done about it in `instructions`.

The story of an incident is also its memory: what cannot be read from plans and nodes (which partitions
were lost, which node came back, what operators asked for) is a record of `facts`, stored with the sentence
that tells it and recalled when a coordinator starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from domain.planning import NodeSpace
from domain.recovery.policy import RecoveryPolicy
from domain.recovery.tentative import TentativeOutput
from domain.topology.graph import Topology


class Phase(StrEnum):
    """Where a topology stands in an incident."""

    FAILED = "failed"  # partitions are down, and no plan is under way
    PLANNED = "planned"  # a plan is recorded, not yet in ZooKeeper
    PUBLISHED = "published"  # the plan is in ZooKeeper; the driver has not applied it
    REPLAYING = "replaying"  # applied; the driver catches up, or the next wave is awaited
    VERIFYING = "verifying"  # caught up; the next global checkpoint is awaited
    VERIFIED = "verified"  # that checkpoint is complete
    DROPPED = "dropped"  # nothing left to recover here: undeployed, redeployed, or the nodes came back


class State(StrEnum):
    """Where an incident stands; the values are those of the database. `catching_up`: everything is restored
    and verified, and queries that it took down are not available yet."""

    OPEN = "open"
    ACQUIRING = "acquiring"
    RESTORING = "restoring"
    REPLAYING = "replaying"
    VERIFYING = "verifying"
    CATCHING_UP = "catching_up"
    CLOSED = "closed"
    ABORTED = "aborted"


ENDED_PHASES = frozenset({Phase.VERIFIED, Phase.DROPPED})
UNAPPLIED_PHASES = frozenset({Phase.PLANNED, Phase.PUBLISHED})
PLAN_PHASES = UNAPPLIED_PHASES | {Phase.REPLAYING, Phase.VERIFYING}
ENDED_STATES = frozenset({State.CLOSED, State.ABORTED})

APPLIED_STATES = frozenset({"replaying", "running", "degraded", "paused", "completed"})
"""States in which a driver has applied the plan whose generation it reports."""
CAUGHT_UP_STATES = frozenset({"running", "completed"})
LIVE_STATES = CAUGHT_UP_STATES | {"degraded"}
"""States of a driver in which a partition that is neither absent nor behind works live."""
TERMINAL_DRIVER_STATES = frozenset({"completed"})


@dataclass(slots=True, kw_only=True)
class NodeView:
    """A node as recovery sees it. `usable`: alive, not draining, not a standby. `standby`: one that could
    take over: alive, not draining. `load`: CPU percent that is taken there whatever partitions are there,
    by the agent and by the processes of every topology."""

    name: str
    alive: bool
    usable: bool
    standby: bool = False
    capacity: float = 100.0
    load: float = 0.0
    rack: str = ""

    def limit(self, max_utilisation: float) -> float:
        """CPU percent that partitions may be planned with there; negative where not even the load fits."""
        return self.capacity * max_utilisation - self.load

    def space(self, besides: float = 0.0) -> NodeSpace:
        """For planners. besides: CPU percent that is taken there on top of `load`."""
        return NodeSpace(name=self.name, capacity=self.capacity, load=self.load + besides)


@dataclass(slots=True, kw_only=True)
class Deployment:
    """A deployed topology and the newest plan recorded for it, of whatever kind.

    assignment: what that plan runs; partitions that no wave has restored yet are missing. taken: those of
    them that replicas have taken over since, on which nodes.
    homes: where each partition ran before the incident, default `assignment`.
    before: generation of the newest plan that is not of this incident, default `generation`.
    deployed: generation of the plan that deployed it. acting: takeovers that the newest plan knows of,
    partition -> node.
    costs: CPU percent of each measured partition, and state: bytes of state of each. node_cpu: what the
    topology takes besides on every node, whatever partitions are there.
    latest: newest complete checkpoint, 0 if none, complete since checkpoint_at (Unix seconds); stored: those
    that can be restored. tentative: None where no query gives tentative output. usual_load: seconds of work
    for each second of input in peace, None if that is not known."""

    topology: Topology
    generation: int
    assignment: dict[str, str]
    costs: dict[str, float] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)
    node_cpu: float = 0.0
    latest: int = 0
    checkpoint_at: float = float("-inf")
    stored: frozenset[int] = frozenset()
    priorities: dict[str, int] = field(default_factory=dict)
    policy: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    homes: dict[str, str] = field(default_factory=dict)
    before: int = -1
    deployed: int = 0
    acting: dict[str, str] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    tentative: TentativeOutput | None = None
    usual_load: float | None = None

    def __post_init__(self) -> None:
        self.homes = self.homes or dict(self.assignment)
        if self.before < 0:
            self.before = self.generation

    @property
    def unassigned(self) -> frozenset[str]:
        """Partitions the newest plan does not run."""
        return frozenset(self.topology.partitions) - self.assignment.keys()

    def measured(self, otherwise: Mapping[str, float]) -> dict[str, float]:
        """CPU percent of each partition as measured now; for those that are not, what is given."""
        return {p: self.costs.get(p, 0.0) or otherwise.get(p, 0.0) for p in self.topology.partitions}

    def home(self, partition: str) -> str | None:
        """Where it is to run now, or ran before the incident."""
        return self.assignment.get(partition) or self.homes.get(partition)


@dataclass(slots=True, kw_only=True)
class TopologyCase:
    """One topology in an incident."""

    name: str
    phase: Phase = Phase.FAILED
    # Of its last plan, also one of before the incident: generation and checkpoint it starts from.
    generation: int = 0
    checkpoint: int = 0
    # Of its last plan in this incident, if there is one.
    wave: int = 0
    rollback: bool = False
    method: str = ""
    restore: frozenset[str] = frozenset()
    # Partitions that are down (or are to move) and that no plan under way covers.
    failed: set[str] = field(default_factory=set)
    # Those of `failed` that a discarded plan was to restore.
    unrestored: set[str] = field(default_factory=set)
    # Partitions that run and are to go to another node, which evens out the nodes; void once anything fails.
    moves: dict[str, str] = field(default_factory=dict)
    # When the driver applied its last plan, in Unix seconds.
    applied_at: float | None = None
    # When all that this plan put back or moved worked live, in Unix seconds.
    caught_up_at: float | None = None
    # What the driver has just reported absent, and behind; empty where it has not reported in this step.
    absent: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    # What replicas may take over soon, as it has just reported: no plan is made for it for a moment.
    standing: frozenset[str] = frozenset()
    # The newest epoch of its input, as the driver has just reported.
    head: int = 0
    # What queries that give output take of the driver's time, as it has just reported; 0 if there are none.
    load: float = 0.0
    # Seconds until those behind have caught up, as it has just estimated; None if it has not.
    catch_up: float | None = None
    # Seconds for which they have come nearer too slowly, as it has just reported.
    not_gaining: float = 0.0
    # An operator asked for a plan although nothing is down.
    forced: bool = False
    # The checkpoint the operator asked for, until a plan is known to be applied.
    origin: int | None = None
    # Whether a plan of this incident is known to be applied.
    applied: bool = False
    # A plan that carried a rollback was discarded, so the next one must carry it.
    rollback_pending: bool = False

    @property
    def anything_left(self) -> bool:
        """Whether anything is to be restored, moved or put back."""
        return bool(self.failed or self.moves or self.forced or self.rollback_pending)

    @property
    def put_back(self) -> bool:
        """Whether the next plan puts all of it back to a checkpoint."""
        return self.forced or self.rollback_pending or self.origin is not None

    @property
    def unapplied(self) -> bool:
        """Whether a plan is under way that its driver is not known to have applied."""
        return self.phase in UNAPPLIED_PHASES

    @property
    def awaits_wave(self) -> bool:
        """Whether the next thing to do here is a plan."""
        due = self.phase is Phase.REPLAYING and bool(self.failed or self.moves or self.forced)
        return self.phase is Phase.FAILED or due

    @property
    def under_way(self) -> bool:
        """Whether a plan is carried out that covers all there is to do."""
        return self.phase in PLAN_PHASES and not self.awaits_wave

    @property
    def may_move(self) -> bool:
        """No plan is awaited, and none is under way that may not be applied: partitions may move."""
        settled = {Phase.REPLAYING, Phase.VERIFYING, *ENDED_PHASES}
        return self.phase in settled and not self.awaits_wave


@dataclass(slots=True, kw_only=True)
class Request:
    """A replacement asked of the provider for `lost_node`; `attempt` counts from 1.
    capacity: what it is to offer, in CPU percent."""

    key: str
    lost_node: str
    attempt: int
    state: Literal["pending", "started", "joined", "failed"] = "pending"
    node: str = ""
    started_at: float | None = None
    requested_at: float | None = None
    capacity: float = 100.0
