"""What the processes tell each other: ZooKeeper values and telemetry messages.

Every value is JSON in UTF-8. Times are float seconds since the Unix epoch (UTC). Decoding checks types and
bounds (`domain/values.py`); unknown fields are ignored, so that a newer process can talk to an older one.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeVar

import msgspec

from domain.value_words import plain_message
from domain.values import (
    Address,
    ApplicationId,
    BigCount,
    Capacity,
    Count,
    Cycle,
    Epoch,
    Generation,
    Measure,
    Memory,
    Method,
    Moment,
    NodeName,
    Port,
    Rack,
    SessionId,
    Share,
    Slots,
)

TELEMETRY_STREAM = "resurge:telemetry"
TELEMETRY_FIELD = "m"
TELEMETRY_MAXLEN = 10_000

DriverState = Literal[
    "starting",
    "waiting_for_nodes",
    "restoring",
    "replaying",
    "running",
    "degraded",
    "paused",
    "completed",
    "failed",
    "stopped",
]
PlanKind = Literal["deploy", "recover", "restore", "move"]
CheckpointState = Literal["started", "acknowledged", "completed", "failed"]
S = TypeVar("S")


class NodeRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes/<id>`, ephemeral: this node is here. `session` is the hexadecimal ZooKeeper session id.
    `lifeline`: port at the address where the agent holds connections open, as long as it runs; 0 for none.
    `created`: ZooKeeper's number of the transaction that created the znode, filled in where it is read."""

    id: NodeName
    address: Address
    rack: Rack
    slots: Slots
    capacity: Capacity
    standby: bool = False
    pid: Count
    session: SessionId
    registered_at: Moment
    lifeline: Port = 0
    created: BigCount = 0


class NodeStats(msgspec.Struct, frozen=True, kw_only=True):
    """`stats/<id>`, persistent: the heartbeat, written once an interval. `cpu_seconds`: of each topology's
    processes, `own_cpu_seconds` of the agent, both since it began to count. `throttled`: share of the quota's
    periods, since the heartbeat before, in which the node was stopped; 0 without a quota. `topologies`: those
    with an executor here; other versions call them `workers`."""

    id: NodeName
    at: Moment
    session: SessionId
    cpu_percent: Measure
    memory_bytes: BigCount
    disk_free_bytes: BigCount
    topologies: list[str] = msgspec.field(default_factory=list, name="workers")
    cpu_seconds: dict[str, Measure] = {}
    own_cpu_seconds: Measure = 0.0
    throttled: Measure = 0.0


class DeployedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/spec`: what must run. `spec` is a topology specification, validated by the reader.
    `computation`: the first version that computes the same rows as this one; 0 from versions of the control
    plane that did not say so. `savepoint`: key of the one that the deployment begins with, "" if it begins
    with the first tuple. `renewed`: operators whose rows cannot be recomputed from the first tuple, because
    they, or what they read, were changed in between; None from versions that did not say so."""

    name: str
    version: Count
    computation: Count = 0
    spec: dict[str, Any]
    desired: Literal["running", "stopped"] = "running"
    savepoint: str = ""
    renewed: list[str] | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/plan`: the whole truth a driver acts on. Only a higher generation replaces it.

    `assignment` names the partitions that are to run; failed ones that no wave has restored yet are not in
    it. With `rollback` all of them go back to cp(`checkpoint`), without it only those in `restore`, which
    replay from their ancestors; what else changes its node takes its state with it. A plan of kind `move`
    puts nothing back: `restore` then names what it moves. `buffering`: outputs for partitions that do not
    follow are kept until the next global checkpoint (adaptive buffering). `deployed`: generation of the plan
    that deployed the topology (this one, if that is its kind); 0 from versions that did not say so.
    `installation`: which database it is of; empty from versions that did not say so. `acting`: the takeovers
    that it knows of, partition -> node; others stay in force under it. `stateless`: partitions that the
    checkpoint knows nothing of, because the version of the topology that made it did not have them.
    `divided`: operators whose state it has in other partitions."""

    generation: Generation
    kind: PlanKind
    assignment: dict[str, str]
    incident: Count | None = None
    wave: Count = 0
    method: Method = "blocking"
    rollback: bool = False
    checkpoint: Epoch = 0
    restore: list[str] = []
    buffering: bool = False
    deployed: Generation = 0
    reason: str = ""
    installation: str = ""
    acting: dict[str, str] = {}
    stateless: list[str] = []
    divided: list[str] = []

    @property
    def put_back(self) -> list[str]:
        """Partitions that start again from the checkpoint; with `rollback`, and to restore, all do."""
        return [] if self.kind == "move" else self.restore

    @property
    def deployment(self) -> int:
        """Generation of the plan that deployed the topology, 0 if that is not known."""
        return self.deployed or (self.generation if self.kind == "deploy" else 0)


class ShadowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Of the replica of a partition: its node, and how many epochs it lacks; `ready`: whether it could take
    over, because it has state on a node that can be reached."""

    node: str
    lacks: Count = 0
    ready: bool = False


class TentativeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Of a query that goes on without a part of its input. Its output of the epochs since..epoch is
    tentative. `fidelity`: the share of its output that it gives now, 0 to 1, estimated from rates."""

    since: Epoch
    epoch: Epoch
    fidelity: Share


class NodeKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node of a topology whose guarantee is bounded. Since it was deployed there: `stored` states of
    keys, as often as they were, in `segments` objects of storage with `stored_bytes`. `waiting`: requests
    that are still to be stored; `error`: why the last one failed, empty if it did not. Since the driver
    started: keys that partitions which had lost their state asked for, of which `fetched` had a state in
    storage, `unknown` had none, `unanswered` had no answer in time and `bypassed` were not asked for; keys
    `refused` because too much waited, which are tried again; `lost_rows` for partitions that did not run.
    Now: `changed` keys that are not stored yet, the first of them for `oldest` seconds of input.
    `..._failures`: in a row; `..._bypassed_until`: when storage is tried again, 0 where it is not
    bypassed."""

    stored: BigCount = 0
    stored_bytes: BigCount = 0
    segments: BigCount = 0
    waiting: BigCount = 0
    storing_failures: Count = 0
    storing_bypassed_until: Moment = 0.0
    fetching_failures: Count = 0
    fetching_bypassed_until: Moment = 0.0
    error: str = ""
    fetched: BigCount = 0
    unknown: BigCount = 0
    unanswered: BigCount = 0
    bypassed: BigCount = 0
    refused: BigCount = 0
    lost_rows: BigCount = 0
    changed: BigCount = 0
    oldest: Measure = 0.0


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="driver"):
    """`topologies/<t>/driver`, ephemeral, and a telemetry message. `generation` is the plan applied;
    `head` the newest epoch in the epoch log; `committed` the newest that every partition processed. `absent`
    partitions do not run (their node is lost, or no plan places them); those `behind` run and have not caught
    up with the ones furthest ahead. `life`: the driver's fencing number, how many drivers have worked on the
    epoch log, this one included; 0 before it has opened the log. `refused`: generation of the newest plan if
    the driver cannot apply it, else 0; `restorable`: the checkpoints that a plan may start from, ascending, 0
    being the empty state.
    `load`: seconds that jobs take without replay for each second of input, where what waits (30 s at most)
    counts as if it came within a minute. While no query gives output it is 0, or 1.25 if those behind come no
    nearer.
    `slow`: nodes whose tasks take a multiple of the time of others' for the same work.
    `catch_up`: seconds until those behind have caught up, at the pace of their last half minute; 86,400 if
    they come no nearer, None while it is not known. `not_gaining`: seconds for which those that replay now
    have been known to need more than ten minutes, or, after the first minute, have had no known pace.
    `acting`: partitions that a replica has taken over since the plan applied -> its node. `shadows`: the
    other replicas, by partition. `tentative`: queries that give tentative output. `keys`: by node, where the
    guarantee is bounded."""

    topology: str
    pid: Count
    session: SessionId
    life: Count = 0
    generation: Generation
    state: DriverState
    head: Epoch
    committed: Epoch
    checkpoint: Epoch
    absent: list[str] = []
    behind: list[str] = []
    refused: Generation = 0
    restorable: list[Epoch] = []
    load: Measure = 0.0
    slow: list[str] = []
    catch_up: Measure | None = None
    not_gaining: Measure = 0.0
    error: str = ""
    acting: dict[str, str] = {}
    shadows: dict[str, ShadowStatus] = {}
    tentative: dict[str, TentativeStatus] = {}
    keys: dict[str, NodeKeys] = {}
    at: Moment


class ExecutorGone(msgspec.Struct, frozen=True, kw_only=True):
    """Since the moment `at`, of the driver's clock, a node has no executor. `session`: that of its
    registration then."""

    session: SessionId
    at: Moment


class ExecutorsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/executors`, ephemeral: registered nodes with an executor of this topology, and, by
    name, those that had one and have none now. A thread of the driver writes it the moment Spark reports a
    change, also in the middle of a job."""

    pid: Count
    present: list[str] = []
    gone: dict[str, ExecutorGone] = {}


class SparkApplication(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/application`, ephemeral: what agents start executors for. `id`: Spark's; executors
    register at `host` and `port` of the driver and have `memory` as their heap. `ended`: ids of the executors
    that the driver lost or gave up last: should their processes still be there, other ones take their place.
    `life`: the driver's fencing number, as in `DriverStatus`."""

    id: ApplicationId
    host: Address
    port: Port
    memory: Memory
    pid: Count
    life: Count = 0
    ended: list[str] = []


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/replicas`: the replication plan in force. `assignment`: partition -> node that runs its
    replica, which may take over when the partition's node is lost. It is no recovery plan, and obeyed only in
    the deployment that it names; `deployed` and `installation`: as in `Plan`. A higher `revision` of the same
    deployment replaces it. `tentative`: operators whose queries may give tentative output where they lack a
    part of their input -> the fidelity that this must be above."""

    deployed: Generation = 0
    assignment: dict[str, str] = {}
    tentative: dict[str, Share] = {}
    revision: Count = 0
    installation: str = ""


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/control`: a higher `checkpoint_request` asks for a checkpoint at the next boundary."""

    checkpoint_request: Count = 0
    paused: bool = False


class Former(msgspec.Struct, frozen=True, kw_only=True):
    """`former/<t>`: topologies of this name were deleted. Their deployments had numbers up to `generation`;
    those of one that has the name now have higher ones."""

    generation: Generation


class LatestCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`topologies/<t>/checkpoints/latest`: the newest complete global checkpoint cp(P_k) of the present
    history. kept: the checkpoints of that history that are in storage, ascending, and when each was
    completed (`kept_at`; versions before this one did not say). highest: the highest number ever used, above
    `checkpoint` after the topology went back to an older one."""

    checkpoint: Epoch
    generation: Generation
    completed_at: Moment
    size_bytes: BigCount
    kept: list[Epoch] = []
    kept_at: list[Moment] = []
    highest: Epoch = 0


class CheckpointAck(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's snapshot is stored (or, with `error`, is not and why). `attempt`, `deployed`: see
    `Snapshot`. `taken_at`: when the snapshot was taken, by the clock of the node; `waited`: seconds from then
    until its upload began, which took `duration`. `cpu_seconds`: of the agent's thread that stored it. 0 from
    versions that did not measure."""

    partition: str
    checkpoint: Epoch
    generation: Generation
    attempt: BigCount = 0
    deployed: Generation = 0
    node: str
    size_bytes: BigCount
    uploaded_bytes: BigCount
    files: Count
    duration: Measure
    taken_at: Moment = 0.0
    waited: Measure = 0.0
    cpu_seconds: Measure = 0.0
    error: str = ""


class SnapshotFile(msgspec.Struct, frozen=True, kw_only=True):
    """`checksum`: of the content; empty from versions that took none."""

    name: str
    bytes: BigCount
    checksum: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a task leaves for the node's agent to upload: a state manifest and the files it names.
    `manifest` is opaque to the agent and stored as it is. `attempt`: of the job that left it; it grows where
    operators are not deterministic, so that the same checkpoint may come out otherwise; elsewhere it is 0.
    `deployed`: as in `Plan`. `spread`: seconds from then over which the upload may be spread out."""

    topology: str
    partition: str
    checkpoint: Epoch
    generation: Generation
    attempt: BigCount = 0
    deployed: Generation = 0
    spread: Measure = 0.0
    files: list[SnapshotFile]
    manifest: dict[str, Any]


KEEPING_PACE_EPOCHS = 3
KEEPING_PACE_SECONDS = 5.0
"""Of input that a job may work off, or leave waiting, in a topology that keeps pace with its input."""


class QueryMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Of one query at one moment: last epoch applied, mean end-to-end latency of the tuples in the epochs
    just applied (seconds; for a stalled query the age of the oldest tuple that waits), rows written."""

    epoch: Epoch
    latency: Measure
    rows: BigCount
    stalled: bool = False


class PartitionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Moving averages, None until they are measured: `cost`, the CPU seconds per second that the operator
    measures of itself while it works in the present, and `tuple_rate`, tuples per second in and out."""

    epoch: Epoch
    node: str
    cost: Measure | None = None
    tuple_rate: Measure | None = None
    rows_in: BigCount = 0
    rows_out: BigCount = 0
    state_bytes: BigCount = 0


class NodeWork(msgspec.Struct, frozen=True, kw_only=True):
    """What one job did on one node, replays included: Spark tasks, CPU seconds that operators measured of
    themselves, tuples into partitions and out of them."""

    tasks: Count
    cpu_seconds: Measure
    tuples: BigCount


class EpochReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="epoch"):
    """Telemetry after each Spark job: it ran epochs `first..last` (both included). `work`: by node.
    `epoch_interval`: seconds; 0 from versions that did not say. `replayed`: epochs that it ran besides for
    partitions behind. `window_cycle`: 0 also from versions that did not say.
    `rates`, `flows`: now and then, averages of the rows per second that each partition gives, and by operator
    that reads from it to each target there; empty where there is no news (`domain.execution.flows`)."""

    topology: str
    generation: Generation
    first: Epoch
    last: Epoch
    head: Epoch
    committed: Epoch
    tuples: BigCount
    started_at: Moment
    ended_at: Moment
    input_rate: Measure
    watermark: float
    state: DriverState
    absent: list[str]
    queries: dict[str, QueryMetrics]
    partitions: dict[str, PartitionMetrics]
    work: dict[str, NodeWork] = {}
    epoch_interval: Measure = 0.0
    replayed: BigCount = 0
    window_cycle: Cycle = 0.0
    rates: dict[str, Measure] = {}
    flows: dict[str, dict[str, list[Measure]]] = {}

    @property
    def caught_up(self) -> bool:
        """Whether the topology keeps pace with its input: the job was of few epochs, or of few seconds of
        them, and so are those that wait."""
        epochs = max(self.last - self.first + 1, self.head - self.last)
        return epochs <= KEEPING_PACE_EPOCHS or epochs * self.epoch_interval <= KEEPING_PACE_SECONDS


class CheckpointReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="checkpoint"):
    """What became of cp(P_checkpoint). kept: complete ones in storage, ascending. acknowledgements: of
    every partition, once it has ended."""

    topology: str
    checkpoint: Epoch
    generation: Generation
    state: CheckpointState
    acknowledged: Count
    total: Count
    size_bytes: BigCount
    started_at: Moment
    ended_at: Moment | None = None
    cause: str = ""
    request: Count = 0
    kept: list[Epoch] = []
    acknowledgements: list[CheckpointAck] = []


class ProblemReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="problem"):
    """Something an operator must know: where it happened, what is wrong, what to do. row: the one that caused
    it, as a JSON object, where it is known."""

    topology: str
    where: str
    what: str
    hint: str = ""
    severity: Literal["warning", "error"] = "error"
    count: Count = 1
    row: str = ""


Telemetry = DriverStatus | EpochReport | CheckpointReport | ProblemReport


PartitionCosts = dict[str, float]
"""`topologies/<t>/costs`: CPU seconds per second of each partition, for the planner and the next driver."""


def encode(value: msgspec.Struct | PartitionCosts) -> bytes:
    return msgspec.json.encode(value)


# Made with the module, before there are threads: what msgspec works out when a type is first decoded, another
# thread would see half done, and read through a null pointer (docs/decisions/0013).
_values: dict[Any, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        NodeRegistration, NodeStats, DeployedSpec, Plan, Replicas, DriverStatus, ExecutorsSeen, Control,
        SparkApplication, Former, LatestCheckpoint, CheckpointAck, Snapshot, PartitionCosts,
    )
}  # fmt: skip
_telemetry = msgspec.json.Decoder(Telemetry)


LARGEST_VALUE = 64 << 20
"""Bytes. A report about 100,000 partitions has a quarter of it."""
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class UnreadableValueError(ValueError):
    """Bytes that are no value of the kind that is expected there; the message names the field."""


def decode(data: bytes, kind: type[S]) -> S:
    """Decode one value; raises `UnreadableValueError`, whatever the bytes are."""
    value: S = _decoded(data, _values[kind])
    return value


def decode_telemetry(data: bytes) -> Telemetry:
    """Decode a telemetry message by its `kind`; raises `UnreadableValueError`, whatever the bytes are."""
    message: Telemetry = _decoded(data, _telemetry)
    return message


def _decoded(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    if len(data) > LARGEST_VALUE:
        raise UnreadableValueError(f"{len(data)} bytes are more than {LARGEST_VALUE}")
    if b"\\u0000" in data:  # no database holds it in a text
        data = _NUL.sub(rb"\1\\ufffd", data)
    try:
        return decoder.decode(data)
    except RecursionError:
        raise UnreadableValueError("it is nested too deeply") from None
    except ValueError as error:  # msgspec's own errors, and those of bytes that are no UTF-8
        raise UnreadableValueError(plain_message(str(error))) from error
