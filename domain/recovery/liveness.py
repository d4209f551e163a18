"""What the failure detector is told, what it asks for, and the limits it works with.

Times are float seconds of one clock, chosen by the caller; the detector never reads a clock itself and
never compares its time with one written by another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.messages import ExecutorsSeen, NodeRegistration
from domain.recovery.events import NodesLost
from domain.recovery.evidence import DeathEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds of silence after which a node is suspected or lost.

    grace: after our own session was interrupted, how long a node may take to register again.
    gone: silence that confirms a registration that has disappeared.
    absent: silence that confirms a driver that reports all partitions of the node absent.
    hung: silence of a node that is still registered and that no driver has seen working meanwhile.
    refused: silence that confirms a refused lifeline where no driver can.
    """

    heartbeat_interval: float = 1.0
    session_timeout: float = 4.0

    @property
    def grace(self) -> float:
        return max(10.0, 2.5 * self.session_timeout)

    @property
    def gone(self) -> float:
        return 2.0 * self.heartbeat_interval

    @property
    def absent(self) -> float:
        return 3.0 * self.heartbeat_interval

    @property
    def refused(self) -> float:
        return 1.5 * self.heartbeat_interval

    @property
    def doubtful(self) -> float:
        return self.session_timeout + self.heartbeat_interval

    @property
    def hung(self) -> float:
        return 3.0 * self.session_timeout + self.heartbeat_interval


# ---- stimuli ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeKnown:
    """The database remembers this node (told once, when a detector starts)."""

    at: float
    node: str
    session: str
    pid: int | None
    lost: bool


@dataclass(frozen=True, slots=True)
class SessionConnected:
    """Our own ZooKeeper session works, for the first time or again."""

    at: float


@dataclass(frozen=True, slots=True)
class SessionInterrupted:
    """Our own ZooKeeper session is suspended or lost: absence means nothing until it works again."""

    at: float
    reason: str = "suspended"


@dataclass(frozen=True, slots=True)
class NodesListed:
    """A complete listing of the registrations, made while our session was connected."""

    at: float
    registrations: tuple[NodeRegistration, ...]


@dataclass(frozen=True, slots=True)
class HeartbeatRead:
    """The heartbeat znode of a node as read now; `stamp` is the node's own time and only compared
    with earlier stamps of the same node."""

    at: float
    node: str
    session: str
    stamp: float


@dataclass(frozen=True, slots=True)
class DriverSaw:
    """A driver's newest report: nodes it cannot reach at all, and nodes it saw working."""

    at: float
    topology: str
    absent: frozenset[str]
    working: frozenset[str]


@dataclass(frozen=True, slots=True)
class LifelineCut:
    """The connection to the agent that registered with this session was closed, and a new one refused."""

    at: float
    node: str
    session: str


@dataclass(frozen=True, slots=True)
class LifelineRestored:
    """A connection to the agent could be made again."""

    at: float
    node: str


@dataclass(frozen=True, slots=True)
class ExecutorsListed:
    """What the drivers of all topologies say of their executors now, by topology."""

    at: float
    drivers: Mapping[str, ExecutorsSeen]


Stimulus = (
    NodeKnown
    | SessionConnected
    | SessionInterrupted
    | NodesListed
    | HeartbeatRead
    | DriverSaw
    | LifelineCut
    | LifelineRestored
    | ExecutorsListed
)


# ---- instructions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeAlive:
    """Record the node as alive. `returned`: its processes never stopped, only its session changed."""

    registration: NodeRegistration
    returned: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class NodesSuspected:
    """Record these nodes as suspect; node name -> evidence."""

    nodes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SuspicionCleared:
    """The suspicion was wrong: record the node as alive again."""

    node: str
    evidence: str


Instruction = NodeAlive | NodesSuspected | SuspicionCleared | NodesLost
"""`NodesLost`: record these nodes as lost, and open an incident or add them to the open one."""


# ---- state --------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class WatchedNode:
    """All that is remembered about a node. States: `unknown` (never seen), `alive`, `suspect`, `lost`."""

    name: str
    state: str = "unknown"
    registration: NodeRegistration | None = None
    listed: bool = False
    session: str = ""
    pid: int | None = None
    stamp: float | None = None
    heard_at: float = float("-inf")
    worked_at: float = float("-inf")
    absent_in: dict[str, float] = field(default_factory=dict)
    evidence: DeathEvidence = field(default_factory=DeathEvidence)
    lost_session: str = ""
    lost_at: float = float("-inf")
    story: list[tuple[float, str, str]] = field(default_factory=list)


class ImpossibleTransitionError(Exception):
    """A transition no rule allows; carries the whole story of what it happened to."""

    def __init__(self, subject: str, start: str, finish: str, story: list[tuple[float, str, str]]) -> None:
        self.subject, self.start, self.finish, self.story = subject, start, finish, list(story)
        lines = "\n".join(f"  {at:.3f}  {step}: {why}" for at, step, why in self.story)
        super().__init__(f"{subject} cannot go from {start} to {finish}. Its story:\n{lines or '  (empty)'}")
