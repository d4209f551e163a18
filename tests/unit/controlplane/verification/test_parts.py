"""The last committed epoch of a topology, the original input, and the command."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from controlplane.topologies.models import Topology
from controlplane.verification.comparison import QueryResult, compare
from controlplane.verification.extent import extent_read
from controlplane.verification.original import original_read
from controlplane.verification.problems import VerificationError
from controlplane.verification.rates import Rates
from controlplane.verification.relations import Stream
from domain.execution.job import NO_WATERMARK
from spark_jobs.sinks.parquet import partition_path
from spark_jobs.sources.arrivals import Arrivals
from spark_jobs.sources.prepare import prepare
from spark_jobs.sources.sample import sample_write
from tests.outputs import DEPLOYED, epochs_present
from tests.unit.controlplane.verification.small_engine import run
from tests.unit.controlplane.verification.test_verifying import pipeline


def log(path: Path, *entries: dict[str, Any], tail: bytes = b"") -> Path:
    path.write_bytes(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries) + tail)
    return path


def plan(epoch: int, *, final: bool = False) -> dict[str, Any]:
    slices = {"Source": [{"tuple": epoch * 10 - 10}, {"tuple": epoch * 10}]}
    return {"t": "plan", "epoch": epoch, "slices": slices, "watermark": epoch * 100,
            "previous_watermark": epoch * 100 - 100, "at": 0.0, "final": final}  # fmt: skip


START = {"t": "start", "at": 0.0, "origin_us": 7}


class TestExtent:
    def test_last_commit_counts_and_a_torn_line_does_not(self, tmp_path: Path) -> None:
        path = log(
            tmp_path / "epochs.log", START, plan(1), plan(2), {"t": "commit", "epoch": 1}, tail=b'{"t":"com'
        )
        extent = extent_read(path)
        assert (extent.epoch, extent.origin_us, extent.watermark, extent.final) == (1, 7, 100, False)
        assert extent.tuples == {"Source": 10}

    def test_rollback_takes_back(self, tmp_path: Path) -> None:
        applied = {"t": "applied", "generation": 2, "epoch": 1}
        path = log(tmp_path / "epochs.log", START, plan(1), plan(2), {"t": "commit", "epoch": 2}, applied)
        assert extent_read(path).epoch == 1

    def test_trimmed_log_tells_by_the_next_epoch(self, tmp_path: Path) -> None:
        path = log(
            tmp_path / "epochs.log", START, {"t": "head", "epoch": 3}, plan(3), {"t": "commit", "epoch": 2}
        )
        extent = extent_read(path)
        assert (extent.tuples, extent.watermark) == ({"Source": 20}, 200)

    def test_what_a_savepoint_had_is_told(self, tmp_path: Path) -> None:
        start = {**START, "after": plan(2)}
        path = log(tmp_path / "epochs.log", start, plan(2), plan(3), {"t": "commit", "epoch": 3})
        extent = extent_read(path)
        assert (extent.epoch, extent.tuples) == (3, {"Source": 30})
        before = extent.begun_after
        assert before is not None
        assert (before.epoch, before.tuples, before.watermark, before.final) == (
            2,
            {"Source": 20},
            200,
            False,
        )

    def test_nothing_committed_yet(self, tmp_path: Path) -> None:
        assert extent_read(log(tmp_path / "epochs.log", START, plan(1))).tuples == {}

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ([], "the log has no start"),
            ([START, {"t": "commit", "epoch": 4}], "no longer holds epoch 4"),
            ([START, {"t": "commit"}], "line 2: the line is damaged"),
            ([{**START, "after": {"epoch": 2}}], "line 1: the line is damaged"),
            ([{**START, "after": 7}], "line 1: the line is damaged"),
        ],
    )
    def test_unusable_logs(self, tmp_path: Path, entries: list[dict[str, Any]], message: str) -> None:
        with pytest.raises(VerificationError, match=message):
            extent_read(log(tmp_path / "epochs.log", *entries))


class TestOriginal:
    """Two independent readers must find the same rows in a file."""

    @pytest.mark.parametrize(
        ("name", "body"),
        [
            ("i.csv", b'text,ts\r\n"a,b",2023-01-01T00:00:00Z\r\n"x\ny",1672531201\r\n\xff,5\r\nlast\r\n'
                      b"z,99999999999\r\n"),
            ("i.tsv", b"ts\ttext\n1672531200123\t#a\n\t#b\n1672531200122\t\xc3\xa9\n"),
            ("i.jsonl", b'\xef\xbb\xbf{"text":"a","ts":1}\n\n{"text":null,"ts":2}\n{"ts":3.5,"text":"b"}\n'
                        b'{oops\n{"text":"\xff","ts":4}\n{"text":7,"ts":5}\n{"text":"c","ts":"2023-01-01"}\n'),
            ("i.csv", b"text\na\n\xfe\n\nb\n"),
        ],
    )  # fmt: skip
    def test_text_formats(self, name: str, body: bytes, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(body)
        self.agree(tmp_path / name, tmp_path)

    @pytest.mark.parametrize(
        "times",
        [
            None,
            pa.array([5, None, 3, 4], pa.timestamp("ms")),
            pa.array([1_672_531_200, 1_672_531_199, None, 7]),
            pa.array([None, 1.5, float("nan"), 1.25]),
            pa.array(["2023-01-01", "soon", None, "1672531200"]),
            pa.array([1, 2, 3, 4], pa.date32()),
        ],
    )
    def test_parquet(self, times: pa.Array | None, tmp_path: Path) -> None:
        raw = pa.array([b"one #a", None, b"\xff", "vier é".encode()], pa.binary())
        columns = {"text": pa.Array.from_buffers(pa.string(), 4, raw.buffers())}
        pq.write_table(
            pa.table(columns if times is None else {**columns, "ts": times}), tmp_path / "i.parquet"
        )
        self.agree(tmp_path / "i.parquet", tmp_path)

    def agree(self, source: Path, directory: Path) -> None:
        original = original_read(source, text="text", ts="ts", ts_unit="auto")
        with pa.memory_map(prepare(source, directory / "input.arrow").path) as mapped:
            prepared = pa.ipc.open_file(mapped).read_all().to_pydict()
        assert original.texts == prepared["text"]
        assert original.times == prepared.get("ts")

    @pytest.mark.parametrize("name", ["i.csv", "i.jsonl", "i.parquet"])
    def test_the_column_that_decides_the_partition(self, name: str, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [
            {"text": "a", "server": 7}, {"text": "b", "server": 30}, {"text": "c", "server": 7},
            {"text": "d", "server": 101},
        ]  # fmt: skip
        source = tmp_path / name
        if name == "i.csv":
            lines = [f"{row['text']},{row['server']}" for row in rows]
            source.write_text("\n".join(["text,server", *lines, "one", "x,7"]))
        elif name == "i.jsonl":
            odd = [{"text": "e"}, {"text": "f", "server": None}, {"text": "g", "server": 1.5}]
            source.write_text("\n".join(json.dumps(row) for row in [*rows, *odd]))
        else:
            pq.write_table(pa.Table.from_pylist([*rows, {"text": "e", "server": None}]), source)
        original = original_read(source, text="text", ts="ts", ts_unit="auto", part="server")
        copy = prepare(source, tmp_path / "input.arrow", partition_by="server").path
        with pa.memory_map(copy) as mapped:
            prepared = pa.ipc.open_file(mapped).read_all().to_pydict()
        assert original.texts == prepared["text"]
        assert original.parts is not None
        known = sorted({part for part in original.parts if part is not None})
        used = [(part, place) for part, place in zip(original.parts, prepared["part"], strict=True) if part]
        assert used
        assert all(known.index(part) == place for part, place in used)

    def test_times_of_a_day_of_minutes(self, tmp_path: Path) -> None:
        """In SQL, one by one, and by the engine."""
        rates = Rates([(minute * 7919) % 3 for minute in range(1_440)], 60_000_000)
        arrivals = Arrivals(rates.counts, rates.step_us)
        with duckdb.connect(":memory:") as database:
            found = database.execute(f"{rates.times(3_000)} ORDER BY n").fetchall()
        expected = arrivals.times(0, 3_000).tolist()
        assert [us for _, us in found] == expected
        assert [rates.time(number) for number in range(3_000)] == expected

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(VerificationError, match=r"nix\.csv: the original input cannot be read"):
            original_read(tmp_path / "nix.csv", text="text", ts="ts", ts_unit="auto")


@pytest.mark.parametrize(("held", "sums"), [([3, 5], (8, 4)), (["three", "five"], (0, 0))])
def test_counts_are_added_up_where_they_are_numbers(
    tmp_path: Path, held: list[Any], sums: tuple[int, int]
) -> None:
    should = pa.table({"key": ["a", "b"], "count": held})
    does = pa.table({"key": ["c"], "count": [4 if sums[0] else "four"], "status": ["final"]})
    pq.write_table(does, tmp_path / "part.parquet")
    result = QueryResult(query="O[0]", operator="O")
    with duckdb.connect() as database:
        database.register("should", should)
        stream = Stream(relation="should", columns=("key", "count"))
        compare(database, stream, [str(tmp_path / "part.parquet")], result, 3)
    assert (result.missing, result.unexpected, result.faults, result.deviation) == (2, 1, 3, 1.5)
    assert (result.should_count, result.counts) == sums


@pytest.mark.django_db
class TestCommand:
    @pytest.fixture
    def home(self, tmp_path: Path, settings: Any) -> Path:
        source = sample_write(tmp_path / "tweets.parquet", tweets=1_000)
        spec = pipeline("hashtags", rate=100, path=str(source))
        run(tmp_path, spec, source=source, epochs=10, tuples=400)
        Topology.objects.create(name="hashtags", spec=spec)
        settings.RESURGE = type("Environment", (), {"home": tmp_path, "outputs": str(tmp_path / "outputs")})
        return tmp_path

    def test_clean(self, home: Path) -> None:
        out = io.StringIO()
        call_command("verify", "hashtags", stdout=out, stderr=io.StringIO())
        assert "15 of 15 queries are exact" in out.getvalue()
        assert "up to epoch 10, 4,000 tuples of Source, watermark 2023-11-14T22:14:03" in out.getvalue()

    def test_faults_end_with_one_and_are_shown(self, home: Path) -> None:
        epoch = epochs_present(home / "outputs", "hashtags", "O0", 0)[0]
        (
            partition_path(home / "outputs", "hashtags", DEPLOYED, "O0", 0)
            / f"epoch={epoch}"
            / "part.parquet"
        ).unlink()
        out = io.StringIO()
        with pytest.raises(SystemExit) as caught:
            call_command("verify", "hashtags", rows=1, stdout=out, stderr=io.StringIO())
        assert caught.value.code == 1
        assert "O0[0] missing: window_start=2023-11-14T22:13:15.000+00:00" in out.getvalue()
        assert "14 of 15 queries are exact" in out.getvalue()

    def test_deviations_that_are_permitted_end_with_zero(self, home: Path) -> None:
        row = Topology.objects.get()
        Topology.objects.update(spec={**row.spec, "guarantee": "bounded"})
        epoch = epochs_present(home / "outputs", "hashtags", "O0", 0)[0]
        file = partition_path(home / "outputs", "hashtags", DEPLOYED, "O0", 0) / f"epoch={epoch}/part.parquet"
        file.unlink()
        out = io.StringIO()
        call_command("verify", "hashtags", stdout=out, stderr=io.StringIO())
        assert "inexact" in out.getvalue()
        assert "14 of 15 queries are exact" in out.getvalue()
        assert re.search(r"^bounded: 0\.\d\d % of the expected rows", out.getvalue(), re.M)
        told = io.StringIO()
        call_command("verify", "hashtags", json=True, stdout=told, stderr=io.StringIO())
        found = json.loads(told.getvalue())
        assert (found["clean"], 0 < found["deviation"] < 0.01) == (False, True)
        assert [query["query"] for query in found["queries"] if query["deviation"]] == ["O0[0]"]
        file.write_bytes(b"no Parquet")
        with pytest.raises(SystemExit) as caught:
            call_command("verify", "hashtags", stdout=io.StringIO(), stderr=io.StringIO())
        assert caught.value.code == 1

    def test_json(self, home: Path) -> None:
        out = io.StringIO()
        call_command("verify", "hashtags", json=True, stdout=out, stderr=io.StringIO())
        found = json.loads(out.getvalue())
        assert found["clean"] is True
        assert found["tuples"] == {"Source": 4000}
        assert [query["query"] for query in found["queries"]] == [f"O{n}[0]" for n in range(15)]
        assert all(
            query["missing"] == 0 and query["expected"] == query["found"] for query in found["queries"]
        )

    def test_unknown_topology_and_missing_input_end_with_two(self, home: Path) -> None:
        with pytest.raises(CommandError, match="there is no topology 'nix'; there are: hashtags") as caught:
            call_command("verify", "nix")
        assert caught.value.returncode == 2
        (home / "tweets.parquet").unlink()
        with pytest.raises(CommandError, match="the original input is gone") as caught:
            call_command("verify", "hashtags", stdout=io.StringIO(), stderr=io.StringIO())
        assert caught.value.returncode == 2

    @pytest.mark.parametrize("watermark", [NO_WATERMARK, 2**61])
    def test_nothing_that_can_be_compared_ends_with_two(self, home: Path, watermark: int) -> None:
        """As with a reader of one's own, whose times may be beyond the calendar, or not known so far."""
        row = Topology.objects.get()
        row.spec["operators"][0]["params"] = {"reader": "own.Reader"}
        row.save()
        log(home / "topologies/hashtags/epochs.log", START, plan(1) | {"watermark": watermark},
            {"t": "commit", "epoch": 1})  # fmt: skip
        out = io.StringIO()
        with pytest.raises(SystemExit) as caught:
            call_command("verify", "hashtags", stdout=out, stderr=io.StringIO())
        assert caught.value.code == 2
        assert "up to epoch 1, 10 tuples of Source" in out.getvalue()
        assert ("watermark 2305843009213693952 us" in out.getvalue()) == (watermark > 0)
