"""The vocabulary of an incident: where it and its topologies stand, and what recovery sees of the world.

An incident covers several topologies. For each there is a `TopologyCase`, whose phase says how far its
present wave is; the state of the incident is that of its least advanced case. Incremental recovery adds
waves to a case (a plan that covers some of `failed` and leaves the rest), not other phases. What can happen
is in `events`, what must be done about it in `instructions`.

The story of an incident is also its memory: what cannot be read from plans and nodes (which partitions
were lost, which node came back, who asked for what) is a `Tell` with a `fact`, stored with the sentence
that tells it and recalled when a coordinator starts again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from domain.recovery.policy import RecoveryPolicy
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

    assignment: what that plan runs; partitions that no wave has restored yet are missing.
    homes: where each partition ran before the incident, default `assignment`.
    before: generation of the newest plan that is not of this incident, default `generation`.
    costs: CPU percent of each measured partition. latest: newest complete checkpoint, 0 if none; stored:
    those that can be restored.
    """

    topology: Topology
    generation: int
    assignment: dict[str, str]
    costs: dict[str, float] = field(default_factory=dict)
    latest: int = 0
    stored: frozenset[int] = frozenset()
    priorities: dict[str, int] = field(default_factory=dict)
    policy: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    homes: dict[str, str] = field(default_factory=dict)
    before: int = -1

    def __post_init__(self) -> None:
        self.homes = self.homes or dict(self.assignment)
        if self.before < 0:
            self.before = self.generation

    @property
    def left_out(self) -> frozenset[str]:
        """Partitions the newest plan does not run."""
        return frozenset(self.topology.partitions) - self.assignment.keys()

    def home(self, partition: str) -> str | None:
        """Where it is to run now, or ran before the incident."""
        return self.assignment.get(partition) or self.homes.get(partition)


@dataclass(slots=True, kw_only=True)
class TopologyCase:
    """One topology in an incident.

    failed: partitions that are down (or are to move) and that no plan under way covers.
    forced: plan even if nothing is down, because an operator asked. origin: the checkpoint he asked for,
    until a plan is known to be applied. restore: what its last plan is to
    restore. unrestored: those of `failed` that a plan was to restore which was thrown away.
    generation, wave, checkpoint, rollback, method: of its last plan; the method is empty before the first.
    applied: a plan of this incident is known to be applied. owed: a plan that carried a rollback was
    thrown away, so the next one must carry it.
    """

    name: str
    phase: Phase = Phase.FAILED
    generation: int = 0
    wave: int = 0
    checkpoint: int = 0
    rollback: bool = False
    method: str = ""
    failed: set[str] = field(default_factory=set)
    restore: frozenset[str] = frozenset()
    unrestored: set[str] = field(default_factory=set)
    forced: bool = False
    origin: int | None = None
    applied: bool = False
    owed: bool = False
    story: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def awaits_wave(self) -> bool:
        """Whether the next thing to do here is a plan."""
        return self.phase is Phase.FAILED or (self.phase is Phase.REPLAYING and bool(self.failed))


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
