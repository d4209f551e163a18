"""Verifying a topology: read its input again, recompute its expected output, compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from controlplane.verification.comparison import QueryResult, compare, output_files
from controlplane.verification.extent import Extent, extent_read
from controlplane.verification.original import original_read
from controlplane.verification.problems import NotExpressibleError, VerificationError
from controlplane.verification.rates import SECOND, Rates, rates_read
from controlplane.verification.relations import DEFAULT_RATE, Relations, Stream, quoted
from controlplane.verification.streams import stream_build
from controlplane.verification.traffic import Traffic, measured_read
from domain.topology import Topology, TopologySpec
from domain.topology.spec import OperatorSpec
from spark_jobs.sinks.committed import Committed, CommittedError, committed_read
from spark_jobs.sources.built_in import TRAFFIC, is_own, reader_of

MEMORY = "1GB"
GIVEN = "earlier"
"""Schema of what another deployment has given."""
Progress = Callable[[str, int, int], None]
"""Called with the present step's text, the number of steps done, and their total."""


class Verification(msgspec.Struct, kw_only=True):
    """The outcome for a topology, up to its last committed epoch."""

    topology: str
    epoch: int
    tuples: dict[str, int]
    watermark_us: int | None
    final: bool
    inputs: dict[str, str]
    queries: list[QueryResult] = []

    @property
    def clean(self) -> bool:
        """At least one query was compared, and all compared queries are exact."""
        return all(query.clean for query in self.queries) and not all(query.skipped for query in self.queries)

    @property
    def readable(self) -> bool:
        """At least one query was compared, and all that had to be compared could be."""
        return not any(query.error for query in self.queries) and not all(
            query.skipped for query in self.queries
        )

    @property
    def deviation(self) -> float:
        """Rows that are missing, wrong or too many, as a share of those expected of the compared queries."""
        return sum(query.faults for query in self.queries) / max(1, sum(one.expected for one in self.queries))


def topology_verify(
    *,
    spec: Mapping[str, Any],
    home: Path,
    outputs: Path,
    renewed: Collection[str] = (),
    inputs: Mapping[str, Path] | None = None,
    examples: int = 3,
    progress: Progress | None = None,
    scratch: Path | None = None,
) -> Verification:
    """Verify the outputs of the topology that `spec` describes. `home` is RESURGE_HOME, `outputs` where its
    queries are written; `renewed` names operators whose rows are in part of an earlier version; `inputs` may
    name other copies of the sources' original files. Reads only, but for `scratch`: tables that need more
    than `MEMORY` go into that directory, and without it into memory.

    Raises `VerificationError` when there is nothing to compare with.
    """
    topology = Topology(msgspec.convert(spec, TopologySpec))
    directory = home / "topologies" / topology.name
    extent = extent_read(directory / "epochs.log")
    before = extent.begun_after
    passes = 1 if before is None else 2
    steps = _Steps(progress, passes * len(topology.operators) + len(topology.outputs))
    verification = Verification(
        topology=topology.name, epoch=extent.epoch, tuples=extent.tuples, watermark_us=extent.watermark,
        final=extent.final, inputs={},
    )  # fmt: skip
    named = _Sources(directory, inputs or {})
    limits = {"memory_limit": MEMORY, "temp_directory": str(scratch)} if scratch else {}
    with duckdb.connect(":memory:", config={"preserve_insertion_order": False, **limits}) as database:
        given_before: dict[str, str | NotExpressibleError] = {}
        if before is not None:
            given_before = _given(_recomputed(database, topology, before, named, steps))
        relations = _recomputed(database, topology, extent, named, steps)
        verification.inputs.update(named.read)
        for operator in topology.outputs:
            steps.next(f"Comparing {operator.name}")
            if operator.name in renewed:
                verification.queries.append(_left_out(operator))
                continue
            root, earlier = outputs / topology.name, given_before.get(operator.name)
            verification.queries.append(_compare(relations, operator, root, extent, examples, earlier))
    steps.finish()
    return verification


@dataclass(slots=True)
class _Sources:
    """Where the records of the input are (`directory`), other copies of the original files by source
    (`given`), and what was read (`read`)."""

    directory: Path
    given: Mapping[str, Path]
    read: dict[str, str] = field(default_factory=dict)


def _recomputed(
    database: duckdb.DuckDBPyConnection, topology: Topology, extent: Extent, named: _Sources, steps: _Steps
) -> Relations:
    """The rows of all operators up to `extent`."""
    relations = Relations(database, topology, extent)
    sources = [operator for operator in topology.operators if not operator.inputs]
    for operator in topology.operators:
        steps.next(f"Recomputing {operator.name}")
        if operator in sources:
            copy = named.directory / ("input.json" if len(sources) == 1 else f"{operator.name}.json")
            path = _add_source(relations, operator, copy, named.given.get(operator.name))
            named.read[operator.name] = str(path) if path else "not a file"
        else:
            stream_build(relations, operator)
    return relations


def _given(relations: Relations) -> dict[str, str | NotExpressibleError]:
    """By output what a deployment before had given, as tables of their own, or why that cannot be recomputed.
    Everything else that was built goes, to be built anew."""
    database, topology = relations.database, relations.topology
    database.execute(f"CREATE SCHEMA {GIVEN}")
    found: dict[str, str | NotExpressibleError] = {}
    for number, operator in enumerate(topology.outputs):
        stream = relations.built[operator.name]
        if isinstance(stream, NotExpressibleError):
            found[operator.name] = stream
            continue
        if stream.waits:
            found[operator.name] = NotExpressibleError("the last windows may have waited for others")
            continue
        table = f"{GIVEN}.given_{number}"
        columns = ", ".join(quoted(name) for name in stream.columns)
        database.execute(f"CREATE TABLE {table} AS SELECT {columns} FROM {stream.relation}")  # noqa: S608 - our own
        found[operator.name] = table
    built = database.execute(
        "SELECT table_type, table_name FROM information_schema.tables WHERE table_schema = 'main'"
    ).fetchall()
    for kind, name in built:
        database.execute(f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} {quoted(name)}")
    return found


def _add_source(relations: Relations, operator: OperatorSpec, copy: Path, given: Path | None) -> Path | None:
    """Load a source's original file; None for a source that has none."""
    params = operator.params
    if reader_of(params) == TRAFFIC:
        return _add_traffic(relations, operator, copy.with_name(f"{operator.name}.speeds.json"), given)
    if is_own(params):
        relations.built[operator.name] = NotExpressibleError(
            f"source {operator.name} reads from {params.get('reader')!r}, not from a file"
        )
        return None
    facts = _facts(copy)
    path = given or Path(facts["source"])
    if given is None:
        _require_unchanged(path, facts)
    original = original_read(
        path,
        text=params.get("text") or "text",
        ts="" if params.get("arrivals") else params.get("ts") or "ts",
        ts_unit=params.get("ts_unit") or "auto",
        part=params.get("partition_by") or "",
    )
    relations.add_source(
        operator, original, _rates(operator, copy.with_name(f"{operator.name}.arrivals.json"))
    )
    return path


def _add_traffic(relations: Relations, operator: OperatorSpec, copy: Path, given: Path | None) -> Path | None:
    """Recompute a source of traffic; returns the file of its speeds, None if it needs none."""
    measured, path = None, given
    if operator.params.get("path"):
        if path is None:
            facts = _facts(copy)
            path = Path(facts["source"])
            _require_unchanged(path, facts)
        measured = measured_read(path)
    rates = Traffic(relations, operator, measured).build()
    relations.require_watermark(operator, None, 1, rates)
    return path


def _rates(operator: OperatorSpec, copy: Path) -> Rates:
    """When tuples of a source without times arrive."""
    params = operator.params
    if not params.get("arrivals"):
        return Rates([params.get("rate") or DEFAULT_RATE], SECOND)
    facts = _facts(copy)
    path = Path(facts["source"])
    _require_unchanged(path, facts)
    return rates_read(path, speedup=params.get("speedup") or 1, rate=params.get("rate"))


def _facts(copy: Path) -> dict[str, Any]:
    """What was noted about the original when the topology was started."""
    try:
        facts: dict[str, Any] = json.loads(copy.read_bytes())
    except (OSError, ValueError) as error:
        raise VerificationError(
            where=str(copy),
            what=f"the record of the input cannot be read: {error}",
            hint="Start the topology first.",
        ) from error
    return facts


def _require_unchanged(path: Path, facts: Mapping[str, Any]) -> None:
    try:
        status = path.stat()
        same = status.st_size == facts["size"]
        if same and status.st_mtime_ns != facts["mtime_ns"]:
            with path.open("rb") as file:
                same = hashlib.file_digest(file, "sha256").hexdigest() == facts.get("digest")
        what = "" if same else "has changed"
    except OSError:
        what = "is gone"
    if what:
        raise VerificationError(
            where=str(path),
            what=f"the original input {what} since the topology started",
            hint="Put the original back, or name a copy of it with --input.",
        )


def _result(operator: OperatorSpec) -> QueryResult:
    """Of an operator that is still to be compared: with one partition it is that of its query."""
    label = "0" if operator.parallelism == 1 else f"0..{operator.parallelism - 1}"
    return QueryResult(query=f"{operator.name}[{label}]", operator=operator.name)


def _left_out(operator: OperatorSpec) -> QueryResult:
    result = _result(operator)
    result.skipped = (
        "it was added or changed, or what it reads was, when a later version went on from a checkpoint: its "
        "rows cannot be recomputed from the first tuple alone"
    )
    return result


def _compare(
    relations: Relations,
    operator: OperatorSpec,
    root: Path,
    extent: Extent,
    examples: int,
    earlier: str | NotExpressibleError | None,
) -> QueryResult:
    """earlier: the rows that another deployment has given."""
    result = _result(operator)
    try:
        committed = _committed(root, extent)
        stream = _kept(_later(relations.stream(operator.name), earlier), operator, committed)
        compare(relations.database, stream, output_files(root, operator.name, committed), result, examples)
    except NotExpressibleError as error:
        result.skipped = str(error)
    return result


def _later(stream: Stream, earlier: str | NotExpressibleError | None) -> Stream:
    """The rows without those that another deployment has given."""
    if earlier is None:
        return stream
    if isinstance(earlier, NotExpressibleError):
        raise NotExpressibleError(f"what was given before the savepoint is not known: {earlier}")
    columns = ", ".join(quoted(name) for name in stream.columns)
    rows = f"(SELECT {columns} FROM {stream.relation} EXCEPT ALL SELECT {columns} FROM {earlier})"  # noqa: S608 - our own
    return replace(stream, relation=rows)


def _committed(root: Path, extent: Extent) -> Committed:
    """Which files count, up to the last epoch that the log said is committed. Files that were compacted since
    hold rows of later epochs, too; those that they replace stay for some minutes (`compaction.GRACE`)."""
    try:
        found = committed_read(root)
    except CommittedError as error:
        hint = "The driver writes it with each epoch: try again while the topology runs."
        raise VerificationError(where=str(root), what=str(error), hint=hint) from error
    if found is None:
        return Committed(topology=root.name, deployed=extent.deployed, epoch=extent.epoch)
    spans = [span for span in found.spans if span.last <= extent.epoch]
    return msgspec.structs.replace(found, epoch=extent.epoch, spans=spans)


def _kept(stream: Stream, operator: OperatorSpec, committed: Committed) -> Stream:
    """The rows that must still be there where outputs were removed because of their age or size."""
    if not committed.removed:
        return stream
    if "window_end" not in stream.columns:
        raise NotExpressibleError(
            f"the outputs of epochs up to {committed.removed} were removed because of their age or size, "
            f"and rows of {operator.name} do not tell of which window they are"
        )
    until = committed.removed_until.get(operator.name)
    if until is None:
        return stream
    rows = f"(SELECT * FROM {stream.relation} WHERE window_end > {until})"  # noqa: S608 - both are our own
    return replace(stream, relation=rows)


class _Steps:
    """Counts steps and reports them."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress = progress or (lambda what, done, total: None)
        self.total = total
        self.done = 0

    def next(self, what: str) -> None:
        self.progress(what, self.done, self.total)
        self.done += 1

    def finish(self) -> None:
        self.progress("Done", self.total, self.total)
