"""What a Spark task is told: the layout of the topology over the nodes, and the epochs to run now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from domain.execution.lanes import Lane
from domain.key_saving.breaker import Breaker
from domain.topology import Topology, TopologySpec, partition_id
from domain.topology.copies import with_copies


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint whose topology had the keys of these operators in other partitions; its record says how.
    Their states are divided anew when partitions are put back to it."""

    checkpoint: int
    operators: list[str]


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Changes only with the plan or the set of reachable nodes.

    `nodes[i]` is the node of slot i; `levels` gives the stage in which each partition runs. A stream inside a
    level stays on its node (chained one_to_one partitions). `deployed`: as in `Plan`. `life`: number of the
    driver that its tasks work for. `force`: outputs are forced to disk before a task ends. `shadowed`,
    `branched`: operators of which some partitions have a shadow, a branch. `masked`: columns whose values no
    report tells."""

    spec: TopologySpec
    generation: int
    deployed: int = 0
    life: int = 0
    force: bool = True
    nodes: list[str]
    slots: dict[str, int]
    levels: dict[str, int]
    outputs: str
    checkpoints: str
    readers: dict[str, dict[str, Any]]
    operator_modules: list[str] = []
    shadowed: list[str] = []
    branched: list[str] = []
    masked: list[str] = []
    division: Division | None = None

    @property
    def level_count(self) -> int:
        return 1 + max(self.levels.values())


NO_WATERMARK: Final = -62_135_596_800 * 1_000_000
"""Before the first event time is known: the first instant that dates can name."""


class EpochPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the epoch log: which slice of each source the epoch reads. Offsets are the source's own
    (Python Data Source API); watermarks are microseconds since the Unix epoch; `at` is when the epoch's last
    tuple was due, in Unix seconds. `idle`: sources that gave nothing for so long that the watermark does not
    wait for them. `drained`: epochs since the input ended, which read only what feedback streams bring."""

    epoch: int
    slices: dict[str, tuple[dict[str, Any], dict[str, Any]]]
    watermark: int
    previous_watermark: int
    at: float
    final: bool = False
    idle: list[str] = []
    drained: int = 0


class RunJob(msgspec.Struct, frozen=True, kw_only=True):
    """Run `lane` as one Spark job. Answered by `JobEnded` or `JobFailed`.

    `progress` is the last epoch each partition applied; `restore` maps partitions to the checkpoint they must
    be put back to first (0: empty). `checkpoint`: leave a snapshot of this epoch. With `trim_below`, older
    manifests go, except those to `keep`. `attempt`: grows with every job where outputs may differ from one
    attempt at an epoch to the next; otherwise 0. `spare`: its tasks get the processor time of their node that
    others leave. `older`: checkpoints that can take the place of the one to restore, if that is damaged.
    `fidelity`: partition whose branch runs -> share of the partition's output that is left. `origins`: branch
    that begins -> epoch of the partition's state that it begins with. Where the guarantee is bounded,
    `restore` maps partitions to the epoch of the state on their node with which they go on at their progress
    (0: none), and `save` has all changed keys stored. `spread`: seconds over which the snapshots' uploads may
    be spread out."""

    lane: Lane | None
    progress: dict[str, int]
    restore: dict[str, int] = {}
    checkpoint: int = 0
    trim_below: int = 0
    keep: list[int] = []
    buffering: bool = False
    drop_buffers: bool = False
    attempt: int = 0
    spare: bool = False
    older: list[int] = []
    fidelity: dict[str, float] = {}
    origins: dict[str, int] = {}
    save: bool = False
    spread: float = 0.0


class Job(RunJob, frozen=True, kw_only=True):
    """The same as tasks are told, with the entries of the log for the epochs of the lane."""

    epochs: list[EpochPlan]


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """State that goes from node to node: `sources` maps each partition to the slot that has it; the layout
    says where it goes. epochs, since, attempt: see `domain.execution.instructions.HandOver`."""

    sources: dict[str, int]
    epochs: dict[str, int]
    since: int | None
    attempt: int = 0


handovers = msgspec.json.Decoder(Handover)


class LateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that a source cut: its position in what its partition read in that epoch, and its event time
    (None: it had none). Microseconds since the Unix epoch."""

    epoch: int
    row: int
    ts: int | None
    watermark: int


class KeyCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of keys in a job, where the guarantee is bounded. Of those that a partition which began
    without state asked for, `fetched` had a state in storage, `unknown` had none, `unanswered` had no answer
    in time, and for `bypassed` ones the storage was not asked. `requested`: left to be stored; `refused`:
    could not be, because too much waits already. At the end `dirty` keys have changed since they were stored,
    the first of them `oldest` seconds of input ago. `lost_rows`: rows for partitions that did not run."""

    fetched: int = 0
    unknown: int = 0
    unanswered: int = 0
    bypassed: int = 0
    requested: int = 0
    refused: int = 0
    dirty: int = 0
    oldest: float = 0.0
    lost_rows: int = 0

    def plus(self, other: KeyCounts) -> KeyCounts:
        """Both counted together; what is left at the end is that of the later one, of the same partition."""
        return KeyCounts(
            fetched=self.fetched + other.fetched,
            unknown=self.unknown + other.unknown,
            unanswered=self.unanswered + other.unanswered,
            bypassed=self.bypassed + other.bypassed,
            requested=self.requested + other.requested,
            refused=self.refused + other.refused,
            dirty=self.dirty,
            oldest=self.oldest,
            lost_rows=self.lost_rows + other.lost_rows,
        )

    def left(self, *, dirty: int, oldest: float) -> KeyCounts:
        return msgspec.structs.replace(self, dirty=dirty, oldest=oldest)


class KeeperStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What one node has stored of the states of keys since the topology was deployed there. stored, bytes: as
    often as they were. segments: requests that were. waiting: requests that are not. storing, fetching:
    whether the storage is bypassed. error: why the last request failed, empty if it did not."""

    stored: int = 0
    bytes: int = 0
    segments: int = 0
    waiting: int = 0
    storing: Breaker = Breaker()
    fetching: Breaker = Breaker()
    error: str = ""


class PartitionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a partition in this job. `error` says why it did not reach the last epoch; `missing`:
    because its node does not have the state it should start from. `instead`: the checkpoint it should be put
    back to is damaged in storage, and this is the newest of `Job.older` that is whole, -1 if none is. `late`:
    rows left out since the topology started because they came behind the watermark, of which `late_rows` are
    some of this job. `event_time`: the greatest that a source partition has given, in microseconds. `row`:
    the one that the operator failed on, as JSON text, where it is known. `routed`: by operator that reads
    from it, rows for each of its targets there, in order (`domain.execution.flows`). `sent_back`: rows of its
    last epoch that are on feedback streams. `keys`: only where the guarantee is bounded."""

    epoch: int
    cpu_seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    state_bytes: int = 0
    error: str = ""
    hint: str = ""
    row: str = ""
    missing: bool = False
    instead: int | None = None
    late: int = 0
    late_rows: list[LateRow] = []
    event_time: int | None = None
    routed: dict[str, list[int]] = {}
    sent_back: int = 0
    keys: KeyCounts | None = None


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """From one task: its slot and level, the node it ran on (misplaced: not the one it should), and those of
    its partitions that advanced. `forks`: partitions that could not compute old epochs again, and why.
    `lost`: those of them whose node lacks the state. `unbuffered`: those whose buffers are not as complete
    as was thought. `working`: seconds spent on all. `cpu_seconds` and `tuples` (in and out) are those of all
    its partitions, epochs that were computed again included. `repeated`: Spark had begun this task before, or
    ran another one of its job a second time. `keeper`: what its node has stored, where the guarantee is
    bounded."""

    slot: int
    level: int
    node: str
    misplaced: bool = False
    repeated: bool = False
    partitions: dict[str, PartitionReport] = {}
    forks: dict[str, str] = {}
    lost: list[str] = []
    unbuffered: list[str] = []
    working: float = 0.0
    cpu_seconds: float = 0.0
    tuples: int = 0
    keeper: KeeperStatus | None = None


def slowest_tasks(reports: Sequence[TaskReport]) -> list[TaskReport]:
    """Of each stage, the task that worked longest; stages run one after the other."""
    slowest: dict[int, TaskReport] = {}
    for report in reports:
        if report.level not in slowest or report.working > slowest[report.level].working:
            slowest[report.level] = report
    return [slowest[level] for level in sorted(slowest)]


_layouts = msgspec.json.Decoder(Layout)
_jobs = msgspec.json.Decoder(Job)
_reports = msgspec.json.Decoder(TaskReport)


@lru_cache(maxsize=8)
def decode_layout(data: bytes) -> tuple[Layout, Topology]:
    """Cached for the life of a Python worker: the same bytes come with every job of a plan."""
    layout = _layouts.decode(data)
    copies = frozenset(layout.shadowed), frozenset(layout.branched)
    return layout, with_copies(Topology(layout.spec), *copies)


@lru_cache(maxsize=4)
def decode_job(data: bytes) -> Job:
    return _jobs.decode(data)


def decode_report(data: bytes) -> TaskReport:
    return _reports.decode(data)


def placed_levels(topology: Topology, assignment: Mapping[str, str]) -> dict[str, int]:
    """The level of each partition under an assignment: one more than those of its inputs, or that of the
    one_to_one partition that feeds it, where both are on the same node. A pair that was torn apart delays
    only itself: the other pairs of the same operators stay in one level and exchange nothing. What feedback
    streams bring is sent in level 0, so those that read from one are in a later level."""
    levels: dict[str, int] = {}
    last: dict[str, int] = {}
    for operator in topology.operators:
        within = [stream for stream in operator.inputs if not stream.feedback]
        whole = [stream for stream in within if stream.partitioning != "one_to_one"]
        least = max((last[stream.source] + 1 for stream in whole), default=0)
        least = max(least, len(within) < len(operator.inputs))
        single = [stream.source for stream in within if stream.partitioning == "one_to_one"]
        for index in range(operator.parallelism):
            partition, level = partition_id(operator.name, index), least
            for source in single:
                feeding = partition_id(source, index)
                apart = assignment.get(feeding) != assignment.get(partition)
                level = max(level, levels[feeding] + apart)
            levels[partition] = level
            last[operator.name] = max(last.get(operator.name, 0), level)
    return levels
