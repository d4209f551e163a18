"""The pipeline `traffic-incidents`, from made-up users to verified outputs, and against another count."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from controlplane.topologies.validation import pipeline_read
from controlplane.verification.extent import Extent
from controlplane.verification.problems import VerificationError
from controlplane.verification.relations import Relations
from controlplane.verification.traffic import Traffic
from domain.replication import FidelityModel, equal_rates
from domain.topology import load_topology
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.sources.registry import reader_create
from tests.data import shared_data
from tests.outputs import DEPLOYED, epochs_present
from tests.unit.controlplane.verification.small_engine import run_as_planned
from tests.unit.controlplane.verification.test_verifying import faults, verify

SMALL = {"users": 3_000, "segments": 60, "rate": 300}
SECOND = 1_000_000
Rows = dict[int, list[tuple[str, int]]]


def traffic(**params: Any) -> dict[str, Any]:
    """The pipeline with these parameters of both sources."""
    spec = pipeline_read("traffic-incidents")
    for operator in spec["operators"]:
        if operator["kind"] == "source":
            operator["params"] = {**operator["params"], **params}
    return spec


def rows_of(home: Path) -> Rows:
    """Window end in seconds -> its segments and slow seconds, in order."""
    directory = home / "outputs" / "traffic-incidents" / f"deployed={DEPLOYED}" / "Worst"
    if not directory.exists():
        return {}
    table = pq.read_table(directory)
    found: Rows = {}
    ends = pc.cast(table["window_end"], pa.int64()).to_pylist()
    for end, key, count in zip(ends, table["key"].to_pylist(), table["count"].to_pylist(), strict=True):
        found.setdefault(end // SECOND, []).append((key, count))
    return found


def expected(spec: dict[str, Any], origin_s: int, epochs: int) -> Rows:
    """From the rows of both sources, in the plainest way: means of seconds, and sets of incidents."""
    sums: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    incidents: set[tuple[int, str, int]] = set()
    seen: set[tuple[int, str]] = set()
    for operator in spec["operators"]:
        if operator["kind"] != "source":
            continue
        reader: Any = reader_create(operator["params"], {"origin_us": origin_s * SECOND})
        (part,) = reader.partitions({"tuple": 0}, {"tuple": reader.due(epochs * SECOND)})
        for row in (row for batch in reader.read(part) for row in batch.to_pylist()):
            if "speed" in row:
                sums[row["ts"] // SECOND, row["key"]].append(row["speed"])
            elif (row["ts"] // (10 * SECOND), row["key"]) not in seen:
                seen.add((row["ts"] // (10 * SECOND), row["key"]))
                incidents.add((row["ts"] // SECOND, row["key"], row["ts"]))
    slow = [(second + 1, key) for (second, key), of in sums.items() if sum(of) / len(of) < 20]
    found: Rows = {}
    for end in range(origin_s - origin_s % 10 + 10, origin_s + epochs + 1, 10):
        held = Counter(key for second, key in slow if end - 300 <= second < end)
        reported = {key for second, key, _ in incidents if end - 300 <= second < end}
        rows = [(key, count) for key, count in held.items() if key in reported]
        if rows:
            found[end] = sorted(rows, key=lambda row: (-row[1], row[0]))
    return found


def test_made_up_users_need_no_file_and_are_exact(tmp_path: Path) -> None:
    spec = traffic(**SMALL)
    topology = run_as_planned(tmp_path, spec, epochs=400)
    assert [operator.name for operator in topology.outputs] == ["Worst"]
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    assert verification.tuples["Locations"] == 120_000
    assert verification.inputs == {"Locations": "not a file", "Reports": "not a file"}
    found = rows_of(tmp_path)
    assert len(found) > 30
    assert found == expected(spec, 1_700_000_003, 400)
    assert max(len(rows) for rows in found.values()) > 15


@pytest.mark.parametrize(
    "params",
    [
        {"seed": 5, "zipf": 1.1, "every_s": 3},
        {"users": 7, "segments": 60, "zipf": 0},
        {"limit": 4_000},
        {"users": 1, "segments": 1},
    ],
)
def test_other_users_are_exact(tmp_path: Path, params: dict[str, Any]) -> None:
    spec = traffic(**{**SMALL, **params})
    run_as_planned(tmp_path, spec, epochs=45)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    assert verification.queries[0].expected > 0


def test_the_paper_s_users_at_its_rate(tmp_path: Path) -> None:
    spec = traffic(rate=20_000)
    run_as_planned(tmp_path, spec, epochs=15)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    assert verification.tuples["Locations"] == 300_000


@pytest.mark.parametrize("stream", ["locations", "incidents"])
@pytest.mark.parametrize(
    "params",
    [{}, {"users": 11, "segments": 30, "seed": 9}, {"users": 500, "zipf": 1.5, "every_s": 1}, {"rate": 77}],
)
def test_every_row_is_recomputed(stream: str, params: dict[str, Any]) -> None:
    given = {"reader": "traffic", "stream": stream, **params}
    source = {"name": "S", "kind": "source", "params": given}
    union = {"name": "U", "kind": "union", "inputs": [{"from": "S"}], "output": True}
    topology = load_topology({"name": "t", "operators": [source, union]}, OperatorCatalogue(()))
    reader: Any = reader_create(given, {"origin_us": 7 * SECOND})
    (part,) = reader.partitions({"tuple": 0}, {"tuple": 70_000})
    rows = pa.Table.from_batches(list(reader.read(part)))
    with duckdb.connect(":memory:") as database:
        extent = Extent(1, 7 * SECOND, None, False, {"S": 70_000})
        relations = Relations(database, topology, extent)
        Traffic(relations, topology.operators[0], None).build()
        stream_of = relations.stream("S")
        names = ", ".join(stream_of.columns)
        assert list(stream_of.columns) == rows.column_names
        query = f"SELECT {names} FROM {stream_of.relation} ORDER BY _n"  # noqa: S608 - our own names
        found = database.execute(query).fetchall()
    assert found == list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


class TestMeasuredSpeeds:
    def speeds(self, tmp_path: Path) -> Path:
        path = tmp_path / "speeds.csv"
        rows = [[15 + (step * 7 + segment * 5) % 50 + 0.5 for segment in range(6)] for step in range(9)]
        lines = [",".join(str(speed) for speed in row) for row in rows]
        path.write_text("\n".join(["a,b,c,d,e,f", *lines]))
        return path

    def test_are_exact(self, tmp_path: Path) -> None:
        spec = traffic(path=str(self.speeds(tmp_path)), speedup=30, **{**SMALL, "users": 300})
        run_as_planned(tmp_path, spec, epochs=120)
        verification = verify(tmp_path, spec)
        assert (faults(verification), verification.clean) == ({}, True)
        assert verification.inputs["Locations"].endswith("speeds.csv")
        assert {key for rows in rows_of(tmp_path).values() for key, _ in rows} <= set("abcdef")
        assert verification.queries[0].expected > 10

    def test_a_driver_goes_on_with_its_copy_and_verification_wants_the_original(self, tmp_path: Path) -> None:
        path = self.speeds(tmp_path)
        spec = traffic(path=str(path), **SMALL)
        run_as_planned(tmp_path, spec, epochs=20)
        path.write_text(path.read_text() + "\n1,1,1,1,1,1")
        with pytest.raises(VerificationError, match=r"speeds\.csv: the original input has changed"):
            verify(tmp_path, spec)
        path.unlink()
        run_as_planned(tmp_path, spec, epochs=5, clock=1_700_000_023.0)
        with pytest.raises(VerificationError, match=r"speeds\.csv: the original input is gone"):
            verify(tmp_path, spec)

    def test_those_of_los_angeles(self, tmp_path: Path) -> None:
        path = shared_data("metr_la_los_speed.csv.gz")
        spec = traffic(path=str(path), speedup=3_000)
        run_as_planned(tmp_path, spec, epochs=60)
        verification = verify(tmp_path, spec)
        assert (faults(verification), verification.clean) == ({}, True)
        assert verification.queries[0].expected > 20


def test_a_wrong_count_and_a_lost_epoch_are_found(tmp_path: Path) -> None:
    spec = traffic(**SMALL)
    run_as_planned(tmp_path, spec, epochs=60)
    worst = tmp_path / "outputs" / "traffic-incidents" / f"deployed={DEPLOYED}" / "Worst" / "partition=0"
    first, second = epochs_present(tmp_path / "outputs", "traffic-incidents", "Worst", 0)[1:3]
    changed = worst / f"epoch={first}" / "part.parquet"
    table = pq.read_table(changed, partitioning=None)
    counts = table.column("count").to_pylist()
    pq.write_table(table.set_column(3, "count", pa.array([counts[0] + 1, *counts[1:]])), changed)
    lost = worst / f"epoch={second}" / "part.parquet"
    rows = pq.read_metadata(lost).num_rows
    lost.unlink()
    assert faults(verify(tmp_path, spec)) == {"Worst[0]": (rows, 0, 0, 1)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With small parameters, and not changed by any test."""
    home = tmp_path_factory.mktemp("ran")
    run_as_planned(home, traffic(**SMALL), epochs=60)
    return home


@pytest.mark.parametrize(
    "params", [{"seed": 1}, {"segments": 59}, {"zipf": 0.6}, {"rate": 100}, {"every_s": 3}]
)
def test_other_parameters_would_have_given_something_else(ran: Path, params: dict[str, Any]) -> None:
    """The rows differ, or the tuples come at other times than the watermarks say."""
    try:
        found = faults(verify(ran, traffic(**{**SMALL, **params})))
    except VerificationError as error:
        found = {str(error): (0, 0, 0, 0)}
    assert found


def test_without_one_of_its_streams_there_is_no_result(tmp_path: Path) -> None:
    spec = traffic(**SMALL)
    topology = run_as_planned(tmp_path / "whole", spec, epochs=45)
    right = rows_of(tmp_path / "whole")
    model = FidelityModel(topology, equal_rates(topology))
    for lost, fidelity in (
        ({"Reports[0]", "Reports[1]"}, 0.0),
        ({f"Locations[{index}]" for index in range(4)}, 0.0),
        ({"Distinct[0]", "SlowSeconds[1]"}, 0.0),
        ({"Locations[0]"}, 0.75),
    ):
        home = tmp_path / "-".join(sorted(lost))
        run_as_planned(home, spec, epochs=45, lost=lost)
        alive = [index for name, index in model.index.items() if name not in lost]
        assert math.isclose(float(model.plain_fidelity(model.flags([alive]))[0]), fidelity), lost
        found = rows_of(home)
        assert bool(found) == (lost == {"Locations[0]"}), lost
        assert not found or found.keys() <= right.keys()
