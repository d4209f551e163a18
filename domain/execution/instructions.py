"""What the epoch machine is told and what it has done: its events and its instructions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.execution.job import RunJob, TaskReport
from domain.execution.lanes import Lane
from domain.execution.progress import Position
from domain.messages import (
    CheckpointAck,
    CheckpointReport,
    DriverState,
    LatestCheckpoint,
    Plan,
    ShadowStatus,
    TentativeStatus,
)
from domain.topology import Topology

# ---- events: what has become true; `at` is the time in Unix seconds ---------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBegun:
    """A turn of the loop begins with what ZooKeeper and Spark say now.

    plan: the newest plan. ready: those of its nodes that can work without delay. warming: those that are
    about to. request: the newest request for a checkpoint. latest_generation: the plan under which the newest
    complete checkpoint was taken. pin_seconds: about how long it takes to pin tasks to other nodes.
    misplaced: executors of the plan in force have come or gone, so `PlaceTasks` is going to pin tasks to
    others. replicas: partition -> node that may have a shadow of it. tentative: operators whose queries may
    give tentative output -> the fidelity that it must be above.
    """

    at: float
    plan: Plan | None
    ready: Collection[str] = frozenset()
    warming: Collection[str] = frozenset()
    stopped: bool = False
    paused: bool = False
    request: int = 0
    latest_generation: int = 0
    pin_seconds: float = 0.0
    misplaced: bool = False
    replicas: Mapping[str, str] = field(default_factory=dict)
    tentative: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPlaced:
    """Tasks are pinned to those nodes of the plan that can be reached. absent: the partitions and copies
    without one, None if they are as before. reachable: whether there is any node at all."""

    at: float
    absent: set[str] | None
    reachable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """The state of these partitions is on their new nodes; of the others it could not be brought there."""

    at: float
    partitions: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsPlanned:
    """The epoch log names the epochs up to `head`. ended: the input has, by then. next_due: when an epoch
    follows. final, drained: as in `domain.execution.job.EpochPlan`, of the newest epoch."""

    at: float
    head: int
    ended: bool
    next_due: float
    final: bool = False
    drained: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """A Spark job ran to its end. disturbed: Spark ran tasks a second time, or may have, because an executor
    was lost meanwhile."""

    at: float
    reports: Sequence[TaskReport]
    disturbed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed:
    """Spark gave a job up. cancelled: the driver ended it, because executors were lost. where, hint: what
    failed and what to do, where that is not the job itself."""

    at: float
    error: str
    cancelled: bool
    placing: bool = False
    """It was a job that pins tasks or hands state over: no epoch was to run in it."""
    where: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEnded:
    """The job of a `StartReplay` ran to its end; it comes before the next `TurnBegun`. took: seconds that it
    ran; its result is taken only when no job of the present runs, which can be long after its end. Other
    fields: see `JobEnded`."""

    at: float
    took: float
    reports: Sequence[TaskReport]
    disturbed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFailed:
    """Spark gave the job of a `StartReplay` up; it comes before the next `TurnBegun`. cancelled: the driver
    ended it, because it was told to or executors were lost."""

    at: float
    error: str
    cancelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementsRead:
    """What agents have acknowledged of the pending checkpoint, in any generation."""

    at: float
    acks: Sequence[CheckpointAck]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPointed:
    """Whether ZooKeeper has taken the pointer to the newest checkpoint."""

    at: float
    accepted: bool


Event = (
    TurnBegun
    | HandedOver
    | TasksPlaced
    | EpochsPlanned
    | JobEnded
    | JobFailed
    | ReplayEnded
    | ReplayFailed
    | AcknowledgementsRead
    | CheckpointPointed
)


# ---- instructions: carried out in order, each before the next ----------------------------------------


@dataclass(frozen=True, slots=True)
class StartInput:
    """The first epoch begins now, unless the input has been started before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Bring the state of partitions that run to the nodes that `plan` gives them. Answered by `HandedOver`
    or `JobFailed`.

    sources: partition -> node that has its state now. epochs: partition -> epoch of that state. since: the
    checkpoint that the new node starts from; it gets the states after that from the old node. None: it gets
    the newest alone, and nothing from storage. attempt: as in `RunJob`.
    """

    plan: Plan
    sources: Mapping[str, str]
    epochs: Mapping[str, int]
    since: int | None
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """Force to disk which plan is applied, and where it put every partition."""

    generation: int
    position: Position
    homes: dict[str, str]


@dataclass(frozen=True, slots=True)
class RecordHomes:
    """Force to disk where every partition is now, under the plan applied last: shadows have taken over."""

    position: Position
    homes: dict[str, str]


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """Write the position to the epoch log; `durable`: it is on disk before the next instruction."""

    position: Position
    durable: bool = False


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Have readers never see rows of these epochs of these queries, whatever earlier attempts have written or
    still write."""

    epochs: Mapping[str, range]
    attempt: int


@dataclass(frozen=True, slots=True)
class PointTo:
    """Make this the checkpoint to recover from. Answered by `CheckpointPointed`."""

    latest: LatestCheckpoint


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The plan is another one. Unless `trusted`, what is known of the executors may be wrong."""

    trusted: bool = False


@dataclass(frozen=True, slots=True)
class PlaceTasks:
    """Pin tasks to the nodes of the plan, which names shadows and branches, too. graph: the topology with
    these. Answered by `TasksPlaced` or `JobFailed`."""

    plan: Plan
    graph: Topology


@dataclass(frozen=True, slots=True)
class PlanEpochs:
    """Write the epochs that are due to the log. reached: where the partitions furthest ahead are. after:
    which epoch follows the end of the input, "" none, "open" or "final". Answered by `EpochsPlanned`."""

    reached: int
    after: str = ""


@dataclass(frozen=True, slots=True)
class StartReplay:
    """Run this job beside those of the present. When it is over, `ReplayEnded` or `ReplayFailed` says so;
    until then no other is started, no tasks are pinned and no state is handed over."""

    job: RunJob


@dataclass(frozen=True, slots=True)
class CancelReplay:
    """End the job that was started by `StartReplay`; if it still runs, `ReplayFailed` follows."""


@dataclass(frozen=True, slots=True)
class ReadAcknowledgements:
    """Answered by `AcknowledgementsRead`. job: generation and attempt of the one that left the snapshots;
    what was acknowledged of it does not change."""

    checkpoint: int
    job: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Retire:
    """Nothing older than these is needed any more: the checkpoints `kept` (ascending) and newer ones stay in
    storage, the epochs from `log_below` on in the log, acknowledgements from checkpoint `latest` on."""

    kept: Sequence[int]
    log_below: int
    latest: int


@dataclass(frozen=True, slots=True)
class TellCheckpoint:
    """What became of a checkpoint, for operators."""

    report: CheckpointReport


@dataclass(frozen=True, slots=True)
class TellProblem:
    """A problem, for operators. row: the one that caused it, as JSON text, where it is known."""

    where: str
    what: str
    hint: str
    row: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the driver's own log."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The state of the driver, and which partitions are absent or behind; the other fields are those of
    `domain.messages.DriverStatus`."""

    state: DriverState
    generation: int
    checkpoint: int
    absent: list[str]
    behind: list[str]
    refused: int
    restorable: list[int]
    load: float
    slow: list[str]
    catch_up: float | None
    not_gaining: float
    error: str
    acting: dict[str, str]
    shadows: dict[str, ShadowStatus]
    tentative: dict[str, TentativeStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Telemetry of a job, or of a wait when there was none. present: what it ran for the partitions furthest
    ahead. replayed: epochs that jobs beside it replayed, and that were not told yet; reports: of all these.
    before, progress: the last epoch of each partition before and after them. front: that of the partitions
    furthest ahead. rates, flows: as in `EpochReport`."""

    present: Lane | None
    replayed: int
    reports: Sequence[TaskReport]
    before: Mapping[str, int]
    progress: Mapping[str, int]
    front: int
    started: float
    generation: int
    absent: set[str]
    failing: set[str]
    rates: dict[str, float]
    flows: dict[str, dict[str, list[float]]]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AwaitNews:
    """Wait at most so many seconds, less if ZooKeeper has news."""

    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """The driver's work is done."""

    state: DriverState


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The driver cannot go on; the launcher starts another."""

    cause: str


@dataclass(frozen=True, slots=True)
class MakeWay:
    """Nothing is wrong, but another driver has to go on; the launcher starts it."""

    cause: str


Instruction = (
    StartInput
    | HandOver
    | RecordPlan
    | RecordHomes
    | RecordPosition
    | LeaveOut
    | PointTo
    | LookAgain
    | PlaceTasks
    | PlanEpochs
    | RunJob
    | StartReplay
    | CancelReplay
    | ReadAcknowledgements
    | Retire
    | TellCheckpoint
    | TellProblem
    | Note
    | Publish
    | Measured
    | Sleep
    | AwaitNews
    | End
    | GiveUp
    | MakeWay
)
