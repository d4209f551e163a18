"""The specification of a topology, as it is written in YAML or JSON and stored in the database."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Partitioning = Literal["one_to_one", "split", "merge", "full"]
CheckpointMode = Literal["asynchronous", "synchronous"]
Guarantee = Literal["exact", "bounded"]

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"
TOPOLOGY_NAME_PATTERN = r"^[a-z][a-z0-9-]{0,62}$"
MAX_PARALLELISM = 10_000
MAX_PARTITIONS = 100_000
"""Of one topology."""
MAX_CHANNELS = 10_000_000
"""Pairs of partitions that `full` streams of one topology connect."""

FEWEST_KEPT, MOST_KEPT = 3, 100
"""Complete checkpoints that may be asked to stay in storage."""
MOST_AT_ONCE = 10
"""Checkpoints that may be stored at a time."""

# The patterns are for other languages, too; in Python, `$` would let a name end with a line feed.
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN.replace("$", r"\Z"))]
TopologyName = Annotated[str, msgspec.Meta(pattern=TOPOLOGY_NAME_PATTERN.replace("$", r"\Z"))]
Parallelism = Annotated[int, msgspec.Meta(ge=1, le=MAX_PARALLELISM)]
Priority = Annotated[int, msgspec.Meta(ge=1, le=10)]
Seconds = Annotated[float, msgspec.Meta(gt=0.0, le=86_400.0)]
Cores = Annotated[float, msgspec.Meta(ge=0.0, le=64.0)]


class FieldProblem(msgspec.Struct, frozen=True):
    """What is wrong in a specification and where (`operators[3].parallelism`; the line, from 1, where it was
    read from a text)."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.path) if part)
        return f"{place}: {self.message}" if place else self.message


class TopologyError(ValueError):
    """The specification cannot be used; `problems` says what and where."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


class InputSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"source": "from"}
):
    """A stream: which operator it comes from and how its tuples reach our partitions.
    `key` names the column whose hash chooses the target partition (`split` and `full`). `feedback`: it closes
    a cycle, and what was sent on it in an epoch is read in the next one."""

    source: str
    partitioning: Partitioning = "full"
    key: str = "key"
    feedback: bool = False


class OperatorSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator. `correlated` inputs are joined: losing one loses everything; loading says so of kinds that
    always join. `priority` (1 to 10) is that of the queries an output operator defines. `cpu_request`: cores
    that are planned for each of its partitions even where it was measured to take less, as requests are in
    Kubernetes. `deterministic` is what the author says, None: nothing. `every`: how often the state of a key
    is stored where the guarantee of the topology is bounded, `20s` or `500 events`; empty: as the topology
    says. `doubt` is not the author's: loading puts there why the operator may not be deterministic, as far as
    the catalogue knows."""

    name: Name
    kind: str
    parallelism: Parallelism = 1
    inputs: tuple[InputSpec, ...] = ()
    params: dict[str, Any] = {}
    output: bool = False
    priority: Priority = 1
    cpu_request: Cores = 0.0
    correlated: bool = False
    deterministic: bool | None = None
    every: str = ""
    doubt: str = ""
    description: str = ""

    @property
    def repeatable(self) -> bool:
        """Whether the same inputs give the same rows: the author's word, else what is known."""
        return not self.doubt if self.deterministic is None else self.deterministic


class ParquetSinkSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="parquet"
):
    """Outputs as Parquet files. The files of `compact_s` seconds of epochs become one for each partition,
    when none of them can be written again; 0: never. What is older than `keep_days`, and the oldest of what
    is larger than `keep_gb` (10^9 bytes), is removed then; 0: never."""

    compact_s: Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)] = 300.0
    keep_days: Annotated[float, msgspec.Meta(ge=0.0, le=36_500.0)] = 30.0
    keep_gb: Annotated[float, msgspec.Meta(ge=0.0, le=1e9)] = 100.0


Threads = Annotated[int, msgspec.Meta(ge=1, le=64)]
Requests = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class KeySavingSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the states of keys are stored and fetched, one by one, where the guarantee is bounded; the defaults
    are those of Apache S4. All of it counts for one node.

    `every`: for operators that do not say it themselves. Serialising and storing have `_threads` each, which
    end after `_keep_alive_s` seconds without work, and take up to `_outstanding` requests that wait; a key
    whose request finds no place stays to be stored. A fetch may take `fetch_wait_s` seconds; then its keys
    begin without state. After `failures` in a row the storage is bypassed for `bypass_s` seconds, by fetches
    and by stores each."""

    every: str = "20s"
    serialise_threads: Threads = 1
    serialise_keep_alive_s: Seconds = 120.0
    serialise_outstanding: Requests = 1_000
    store_threads: Threads = 1
    store_keep_alive_s: Seconds = 120.0
    store_outstanding: Requests = 1_000
    fetch_threads: Threads = 1
    fetch_keep_alive_s: Seconds = 120.0
    fetch_wait_s: Seconds = 1.0
    failures: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10
    bypass_s: Seconds = 600.0


class TopologySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topology. Intervals are seconds; without a `checkpoint_interval` that of the installation holds, and
    likewise how many of the newest checkpoints stay in storage (`checkpoints_kept`). Of those, what is older
    than `checkpoints_kept_for` goes but for the newest three. `checkpoint_mode`: whether epochs go on while a
    checkpoint is stored, or stand still. `checkpoints_at_once`: how many may be stored at a time;
    `checkpoint_pause`: least seconds between two; `checkpoint_timeout`: what uploading one may take;
    `checkpoint_failures`: how many may fail in a row before that is shown as a problem.
    `max_epoch_tuples` bounds one epoch, `catch_up_epochs` how many epochs one Spark job may replay after a
    recovery, `drain_epochs` how many epochs feedback streams may carry rows after the end of the input.
    `guarantee`: `exact`, where each row counts once whatever fails; or `bounded`, where what is left goes on
    at once after a failure, a row counts at most once, and the state of a key lacks at most what came since
    it was stored last; `key_saving`: how it is stored then. `sink`: where the rows of output operators go."""

    name: TopologyName
    operators: tuple[OperatorSpec, ...]
    description: str = ""
    epoch_interval: Seconds = 1.0
    checkpoint_interval: Seconds | None = None
    checkpoints_kept: Annotated[int, msgspec.Meta(ge=FEWEST_KEPT, le=MOST_KEPT)] | None = None
    checkpoints_kept_for: Annotated[float, msgspec.Meta(gt=0.0, le=31_536_000.0)] | None = None
    checkpoint_mode: CheckpointMode = "asynchronous"
    checkpoint_pause: Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)] | None = None
    checkpoints_at_once: Annotated[int, msgspec.Meta(ge=1, le=MOST_AT_ONCE)] = 1
    checkpoint_timeout: Seconds | None = None
    checkpoint_failures: Annotated[int, msgspec.Meta(ge=0, le=1_000)] | None = None
    max_epoch_tuples: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] = 1_000_000
    catch_up_epochs: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 8
    drain_epochs: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000
    guarantee: Guarantee = "exact"
    key_saving: KeySavingSpec = KeySavingSpec()
    sink: ParquetSinkSpec = ParquetSinkSpec()

    @property
    def bounded(self) -> bool:
        return self.guarantee == "bounded"


spec_decoder = msgspec.json.Decoder(TopologySpec)
"""Of specifications as they are stored. Made here, before there are threads (docs/decisions/0013)."""
