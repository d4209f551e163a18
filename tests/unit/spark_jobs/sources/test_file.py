from __future__ import annotations

import pickle
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_jobs.sources.arrivals import counts_read
from spark_jobs.sources.file import SOURCE_SCHEMA, FileDataSource, FileStreamReader
from spark_jobs.sources.kept import keep
from spark_jobs.sources.numbered import TupleSlice
from spark_jobs.sources.prepare import prepare
from spark_jobs.sources.problems import SourceError
from spark_jobs.sources.registry import reader_create, source_problems

ORIGIN = 1_700_000_000_123_457
HERE = __name__


class OwnReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def read(self, partition: Any) -> Any:
        return iter(())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("plain")
    pq.write_table(pa.table({"text": [f"row {n}" for n in range(7)]}), directory / "i.parquet")
    return prepare(directory / "i.parquet", directory / "input.arrow").path


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("timed")
    table = pa.table({"text": list("abcdef"), "ts": [50, 20, 90, 40, 60, 55]})
    pq.write_table(table, directory / "i.parquet")
    return prepare(directory / "i.parquet", directory / "input.arrow", ts_unit="us").path


def reader(path: str, **options: Any) -> FileStreamReader:
    return FileStreamReader({"path": path, "rate": 3, "origin_us": ORIGIN, "parallelism": 3, **options})


def tuples(source: FileStreamReader, start: int, end: int) -> list[tuple[int, str]]:
    rows = []
    for part in source.partitions({"tuple": start}, {"tuple": end}):
        for batch in source.read(part):
            assert batch.schema == SOURCE_SCHEMA
            rows += list(zip(batch.column("ts").to_pylist(), batch.column("text").to_pylist(), strict=True))
    return rows


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 5), st.sampled_from([1, 3, 7, 1000, 999_983]))
def test_tuple_n_is_row_n_at_its_time(plain: str, start: int, size: int, parallelism: int, rate: int) -> None:
    source = reader(plain, rate=rate, parallelism=parallelism)
    expected = [(ORIGIN + n * 1_000_000 // rate, f"row {n % 7}") for n in range(start, start + size)]
    assert tuples(source, start, start + size) == expected
    assert source.watermark(start) == ORIGIN + start * 1_000_000 // rate
    parts = source.partitions({"tuple": start}, {"tuple": start + size})
    assert len(parts) == (parallelism if size else 0)
    assert [part.index for part in parts] == list(range(len(parts)))


def test_times_far_ahead_are_exact(plain: str) -> None:
    n = 5_000_000_000_000
    assert tuples(reader(plain, rate=7), n, n + 1)[0][0] == ORIGIN + n * 1_000_000 // 7


def test_text_is_not_copied(plain: str) -> None:
    source = reader(plain, parallelism=1)
    (batch,) = source.read(TupleSlice(0, 2, 5))
    mapped = source.table.column("text").chunk(0)
    assert batch.column("text").buffers()[2].address == mapped.buffers()[2].address


class TestFilesOwnTimes:
    SPAN, STEP = 70, 14

    def every(self, source: FileStreamReader, count: int) -> list[int]:
        return [ts for ts, _ in tuples(source, 0, count)]

    def test_each_pass_goes_on_where_the_one_before_ended(self, timed: str) -> None:
        base = [50, 20, 90, 40, 60, 55]
        period = self.SPAN + self.STEP
        expected = [time + turn * period for turn in range(3) for time in base]
        assert self.every(reader(timed), 18) == expected

    def test_watermark_is_the_least_time_still_to_come(self, timed: str) -> None:
        source = reader(timed)
        times = self.every(source, 40)
        for n in range(20):
            assert source.watermark(n) == min(times[n:])

    def test_last_ts_is_the_greatest_so_far(self, timed: str) -> None:
        source = reader(timed)
        times = self.every(source, 30)
        for n in range(1, 30):
            assert source.last_ts(n) == max(times[:n])

    @pytest.mark.parametrize("last", ["2024-06-01", "2624-01-01", "9999-12-31"])
    def test_a_file_is_repeated_as_long_as_its_times_fit(self, last: str, tmp_path: Path) -> None:
        times = [f"2024-01-01T00:00:{second}" for second in range(10, 60)]
        path = tmp_path / "i.parquet"
        pq.write_table(pa.table({"text": ["a"] * 51, "ts": [*times[:30], last, *times[30:]]}), path)
        prepared = prepare(path, tmp_path / "input.arrow")
        source = reader(prepared.path)
        end = source.advance({"tuple": 0}, 10**15)["tuple"]
        assert end % 51 == 0
        assert source.finished({"tuple": end})
        assert not source.finished({"tuple": end - 1})
        found = [ts for ts, _ in tuples(source, end - 51, end)]
        assert 2**61 < source.watermark(end - 51) == min(found) < max(found) == source.last_ts(end) < 2**62
        assert source.watermark(end) < 2**63
        assert tuples(reader(prepared.path, limit=7), 0, 7)[6][0] < 2**62
        assert reader(prepared.path, limit=7).advance({"tuple": 0}, 100) == {"tuple": 7}
        said = [problem.what for problem in prepared.problems]
        spans = {"2624-01-01": 599, "9999-12-31": 7_975}
        assert said == (
            [
                f"its event times span {spans[last]:,} years, so those of repetitions soon are too large:"
                f" the input ends after {end} tuples"
            ]
            if last in spans
            else []
        )


class TestPartitionBy:
    @pytest.fixture
    def served(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        directory = tmp_path_factory.mktemp("served")
        servers = [f"server {n * n % 11}" for n in range(11)]
        rows = pa.table({"text": [f"row {n}" for n in range(11)], "server": servers})
        pq.write_table(rows, directory / "i.parquet")
        return prepare(
            directory / "i.parquet", directory / "input.arrow", partition_by="server"
        ).path  # fmt: skip

    def test_each_server_has_one_partition_and_keeps_its_times(self, served: str) -> None:
        by_server = reader(served, partition_by="server", parallelism=3)
        ranks = {name: rank for rank, name in enumerate(sorted({f"server {n * n % 11}" for n in range(11)}))}
        every = [(ORIGIN + n * 1_000_000 // 3, f"row {n % 11}") for n in range(4, 40)]
        for part in by_server.partitions({"tuple": 4}, {"tuple": 40}):
            expected = [
                (ts, text)
                for ts, text in every
                if ranks[f"server {int(text[4:]) ** 2 % 11}"] % 3 == part.index
            ]
            found = [
                pair
                for batch in by_server.read(part)
                for pair in zip(batch["ts"].to_pylist(), batch["text"].to_pylist(), strict=True)
            ]
            assert found == expected
        assert by_server.partitions({"tuple": 4}, {"tuple": 4}) == []


class TestArrivals:
    def test_times_offsets_and_watermarks_follow_the_file_of_rates(self, plain: str, tmp_path: Path) -> None:
        (tmp_path / "rates.csv").write_text("t,n\n2026-01-01 00:00,2\n2026-01-01 00:01,4\n")
        copy = tmp_path / "S.arrivals.json"
        keep(str(tmp_path / "rates.csv"), copy, counts_read, refresh=True)
        source = reader(plain, arrivals=str(copy), speedup=60, rate=None)
        expected = [ORIGIN + us for us in (0, 500_000, 1_000_000, 1_250_000, 1_500_000, 1_750_000, 2_000_000)]
        assert [ts for ts, _ in tuples(source, 0, 7)] == expected
        assert [source.watermark(n) for n in range(7)] == expected
        assert source.last_ts(4) == expected[3]
        assert [source.due(us) for us in (0, 1, 1_000_000, 1_250_001, 2_000_000)] == [0, 1, 2, 4, 6]
        again = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own
        assert tuples(again, 3, 9) == tuples(source, 3, 9)

    def test_a_copy_that_is_damaged_is_said(self, plain: str, tmp_path: Path) -> None:
        damaged = tmp_path / "S.arrivals.json"
        for content in (
            None,
            "{",
            '{"source":"r","size":1,"mtime_ns":1,"digest":"","content":{"step_us":1}}',
        ):
            if content is not None:
                damaged.write_text(content)
            with pytest.raises(SourceError, match="the copy of a file of the input cannot be read"):
                reader(plain, arrivals=str(damaged))


class TestOffsets:
    def test_limit_ends_the_stream(self, plain: str) -> None:
        source = reader(plain, limit="10")
        assert source.advance({"tuple": 8}, 5) == {"tuple": 10}
        assert source.finished({"tuple": 10})
        assert not source.finished({"tuple": 9})
        assert source.advance({"tuple": 10}, 5) == {"tuple": 10}
        assert source.last_ts(10) == ORIGIN + 9 * 1_000_000 // 3

    def test_latest_offset_follows_the_clock(self, plain: str) -> None:
        now = time.time_ns() // 1_000
        source = reader(plain, rate=10, origin_us=now - 5_000_000)
        assert 50 <= source.latestOffset({"tuple": 0}, ReadAllAvailable())["tuple"] <= 60
        assert source.latestOffset({"tuple": 4}, ReadMaxRows(3)) == {"tuple": 7}
        assert source.latestOffset({"tuple": 10_000}, ReadAllAvailable()) == {"tuple": 10_000}

    def test_endless_without_a_limit(self, plain: str) -> None:
        assert not reader(plain, limit="").finished({"tuple": 10**12})


class TestConstruction:
    def test_it_is_sparks_reader_and_survives_pickling(self, plain: str) -> None:
        source = reader(plain)
        assert isinstance(source, DataSourceStreamReader)
        copy = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own
        assert tuples(copy, 3, 9) == tuples(source, 3, 9)
        part = source.partitions({"tuple": 0}, {"tuple": 9})[1]
        assert pickle.loads(pickle.dumps(part)) == part  # noqa: S301

    def test_data_source_for_structured_streaming(self, plain: str) -> None:
        source = FileDataSource({"path": plain, "rate": "5"})
        assert source.name() == "resurge_file"
        assert source.streamReader(source.schema()).rate == 5  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "value"), [("rate", 0), ("rate", "fast"), ("limit", -1), ("parallelism", 0)]
    )
    def test_options_that_make_no_sense(self, plain: str, name: str, value: Any) -> None:
        with pytest.raises(SourceError, match=f"file source, option {name}: {value!r} is not a whole number"):
            reader(plain, **{name: value})

    def test_missing_copy(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="the prepared input cannot be opened"):
            reader(str(tmp_path / "nix.arrow")).rows  # noqa: B018

    def test_a_replaced_copy_is_seen(self, tmp_path: Path) -> None:
        target = tmp_path / "input.arrow"
        for text in ("old", "new!"):
            pq.write_table(pa.table({"text": [text]}), tmp_path / "i.parquet")
            prepare(tmp_path / "i.parquet", target, refresh=True)
            assert tuples(reader(str(target)), 0, 1)[0][1] == text


class TestRegistry:
    def test_file_reader_from_params_and_options(self, plain: str) -> None:
        params = {"reader": "file", "path": "original.csv", "rate": 20, "pace": "fast"}
        source = reader_create(params, {"path": plain, "origin_us": 1, "parallelism": 2})
        assert isinstance(source, FileStreamReader)
        assert (source.path, source.rate, source.parallelism) == (plain, 20, 2)
        assert reader_create(params, {"path": plain, "origin_us": 1, "parallelism": 2}) is source

    def test_reader_of_ones_own_gets_text_as_from_spark(self) -> None:
        source = reader_create({"reader": f"{HERE}.OwnReader", "rate": 5}, {"topic": "x", "n": 3}, [HERE])
        assert isinstance(source, OwnReader)
        assert source.options == {"n": "3", "rate": "5", "topic": "x"}

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (f"{HERE}.OwnReader", "is not in an allowed module"),
            ("tests.unit.spark_jobs.sources.nix.Reader", "cannot be imported"),
            ("tests.unit.spark_jobs.sources.test_file.ORIGIN", "is no DataSourceStreamReader"),
        ],
    )
    def test_readers_that_cannot_be_used(self, name: str, message: str) -> None:
        modules = [] if name.startswith(HERE) and "Own" in name else ["tests.unit.spark_jobs.sources"]
        with pytest.raises(SourceError, match=message):
            reader_create({"reader": name}, {}, modules)
        assert message in source_problems({"reader": name}, modules)[0]

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"rate": 0}, "rate must be a whole number from 1 to 100000000, not 0"),
            ({"rate": True}, "rate must be a whole number"),
            ({"limit": 1.5}, "limit must be a whole number"),
            ({"text": 3}, "text must be text, not 3"),
            ({"ts_unit": "h"}, "ts_unit must be one of auto, s, ms, us, ns, not 'h'"),
            ({"pace": "slow"}, "pace must be one of realtime, fast, not 'slow'"),
            ({"origin": "now"}, "origin must be a time from 1970 on in ISO 8601"),
            ({"origin": "1969-12-31T23:59:59+00:00"}, "origin must be a time from 1970 on in ISO 8601"),
            ({"origin": "0001-01-01"}, "origin must be a time from 1970 on in ISO 8601"),
            ({"speed": 1}, "unknown parameter 'speed'; this source takes reader, path"),
            ({"reader": 1}, "reader must be `file`, `traffic` or a dotted path"),
        ],
    )
    def test_bad_parameters_are_named(self, params: dict[str, Any], message: str) -> None:
        (problem,) = source_problems(params, [])
        assert message in problem

    @pytest.mark.parametrize("origin", ["1970-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"])
    def test_readers_take_every_origin_that_is_not_refused(self, plain: str, origin: str) -> None:
        assert source_problems({"origin": origin}, []) == []
        at = round(datetime.fromisoformat(origin).timestamp() * 1_000_000)
        assert tuples(reader(plain, origin_us=at), 0, 1)[0][0] == at
