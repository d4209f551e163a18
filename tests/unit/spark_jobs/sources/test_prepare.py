from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.sources import bounded_lines, formats, spool
from spark_jobs.sources.arrivals import counts_read
from spark_jobs.sources.prepare import PreparedInput, look, prepare
from spark_jobs.sources.problems import SourceError


def content(prepared: PreparedInput) -> dict[str, list[Any]]:
    with pa.memory_map(prepared.path) as mapped:
        found: dict[str, list[Any]] = pa.ipc.open_file(mapped).read_all().to_pydict()
        return found


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def written(path: Path, body: str | bytes) -> Path:
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    return path


def rejected(prepared: PreparedInput) -> list[tuple[int, str]]:
    lines = Path(prepared.rejected_path).read_text().splitlines()
    return [(line["row"], line["reason"]) for line in map(json.loads, lines)]


def test_what_a_driver_was_copying_when_it_was_killed_goes(tmp_path: Path) -> None:
    target = tmp_path / "t" / "input.arrow"
    target.parent.mkdir()
    for name in (".input-ab12.arrow", ".input-ab12.wider"):
        (target.parent / name).write_bytes(b"half")
    prepare(parquet(tmp_path / "i.parquet", text=["a"]), target)
    assert not list(target.parent.glob(".*"))


class TestFormats:
    @pytest.fixture(params=["parquet", "csv", "tsv", "jsonl", "csv.gz", "jsonl.gz"])
    def source(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        texts = ["plain #tag", 'comma, "quoted"', "two\nlines", "", "日本 #é"]
        path = tmp_path / f"input.{request.param}"
        if request.param == "parquet":
            return parquet(path, id=[1, 2, 3, 4, 5], text=texts)
        if request.param.startswith("jsonl"):
            body = "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts))
        else:
            mark = "\t" if request.param == "tsv" else ","
            quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
            body = f"id{mark}text\r\n" + "".join(f"{n}{mark}{text}\r\n" for n, text in enumerate(quoted))
        body_bytes = b"\xef\xbb\xbf" + body.encode()
        return written(path, gzip.compress(body_bytes) if request.param.endswith("gz") else body_bytes)

    def test_same_rows_from_every_format(self, source: Path, tmp_path: Path) -> None:
        prepared = prepare(source, tmp_path / "t" / "input.arrow")
        assert content(prepared) == {"text": ["plain #tag", 'comma, "quoted"', "two\nlines", "", "日本 #é"]}
        assert (prepared.rows, prepared.rejected, prepared.has_ts, prepared.problems) == (5, 0, False, [])

    @pytest.mark.parametrize("names", ['"ts","text"', "ts,text", '"text","ts"'])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_a_byte_order_mark_is_no_part_of_the_first_name(
        self, names: str, mark: str, tmp_path: Path
    ) -> None:
        source = written(tmp_path / "i.csv", f"{mark}{names}\n1,2\n")
        prepared = prepare(source, tmp_path / "input.arrow")
        at = names.replace('"', "").split(",").index("ts")
        assert (content(prepared)["text"], content(prepared)["ts"]) == ([str(2 - at)], [(1 + at) * 1_000_000])

    @pytest.mark.parametrize(
        "kind", [pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]
    )
    def test_every_kind_of_text_column(self, kind: pa.DataType, tmp_path: Path) -> None:
        column = (
            pa.array(["a", None, "b"]).cast(kind)
            if kind != pa.string_view()
            else pa.array(["a", None, "b"], kind)
        )
        source = tmp_path / "input.parquet"
        pq.write_table(pa.table({"tweet": column}), source)
        prepared = prepare(source, tmp_path / "input.arrow", text="tweet")
        assert content(prepared) == {"text": ["a", None, "b"]}


class TestRejectedRows:
    def test_null_and_non_utf8_in_parquet_keep_their_numbers(self, tmp_path: Path) -> None:
        raw = pa.array([b"good", None, b"bad \xff", b"\xc3\xa9"], pa.binary())
        unchecked = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
        prepared = prepare(parquet(tmp_path / "i.parquet", text=unchecked), tmp_path / "input.arrow")
        assert content(prepared)["text"] == ["good", None, None, "é"]
        assert rejected(prepared) == [(1, "the text is null"), (2, "the text is not UTF-8")]
        (problem,) = prepared.problems
        assert "2 of 4 rows are treated as having no text" in problem.what
        assert prepared.rejected_path in problem.hint

    def test_csv(self, tmp_path: Path) -> None:
        source = written(tmp_path / "i.csv", b"id,text\n1,a\n2,\xfe\xff\n3\n\n4,b,c\n5,d")
        prepared = prepare(source, tmp_path / "input.arrow")
        assert content(prepared)["text"] == ["a", None, None, None, "d"]
        assert rejected(prepared) == [
            (1, "the text is not UTF-8"),
            (2, "fields in the row: 1, in the header: 2"),
            (3, "fields in the row: 3, in the header: 2"),
        ]

    def test_a_carriage_return_in_one_row_of_csv(self, tmp_path: Path) -> None:
        source = written(tmp_path / "i.csv", b'id,text\r\n1,a\rb\n2,"c\rd"\r\n3,e\r4,f\n')
        prepared = prepare(source, tmp_path / "input.arrow")
        assert content(prepared)["text"] == ["a", None, "c\rd", "e", "f"]
        assert rejected(prepared) == [(1, "fields in the row: 1, in the header: 2")]

    def test_an_empty_line_of_the_only_column_that_decides_the_partition(self, tmp_path: Path) -> None:
        source = written(tmp_path / "i.csv", b"text\na\n\nb\n")
        prepared = prepare(source, tmp_path / "input.arrow", partition_by="text")
        assert content(prepared) == {"text": ["a", "", "b"], "part": [1, 0, 2]}

    def test_jsonl(self, tmp_path: Path) -> None:
        lines = [
            b'{"text":"a"}', b'{"text":null}', b'{"text":"\xff"}', b"{", b"[1]", b'{"id":1}',
            b'{"text":5}', b"", b'{"text":"b"}',
        ]  # fmt: skip
        prepared = prepare(written(tmp_path / "i.jsonl", b"\n".join(lines)), tmp_path / "input.arrow")
        assert content(prepared)["text"] == ["a", None, None, None, None, None, None, "b"]
        assert [row for row, _ in rejected(prepared)] == [1, 2, 3, 4, 5, 6]
        assert "the text is not UTF-8" in dict(rejected(prepared))[2]

    def test_a_time_that_is_not_utf8_in_csv(self, tmp_path: Path) -> None:
        source = written(tmp_path / "i.csv", b"ts,text\n2024-01-01,a\n\xff\xfe,b\n2024-01-02,c\n")
        prepared = prepare(source, tmp_path / "input.arrow")
        assert content(prepared)["text"] == ["a", None, "c"]
        assert rejected(prepared) == [(1, "the event time is missing or cannot be read")]

    def test_a_line_of_json_that_is_nested_too_deeply(self, tmp_path: Path) -> None:
        lines = [b"[" * 100_000, b'{"text":"a","ts":1}', b'{"text":' * 100_000, b'{"text":"b","ts":2}']
        prepared = prepare(written(tmp_path / "i.jsonl", b"\n".join(lines)), tmp_path / "input.arrow")
        assert content(prepared)["text"] == [None, "a", None, "b"]
        assert content(prepared)["ts"] == [1_000_000, 1_000_000, 1_000_000, 2_000_000]
        assert [row for row, _ in rejected(prepared)] == [0, 2]

    @pytest.mark.parametrize("name", ["i.parquet", "i.csv", "i.jsonl"])
    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize("unit", ["auto", "s"])
    def test_a_time_that_no_unit_makes_sense_of(
        self, tmp_path: Path, name: str, first: bool, unit: str
    ) -> None:
        """It does not decide the unit either."""
        times = [1.7976931348623157e308, 1_700_000_000.5][:: 1 if first else -1]
        path = tmp_path / name
        if name == "i.parquet":
            parquet(path, text=["a", "b"], ts=times)
        elif name == "i.csv":
            written(
                path,
                "".join(["text,ts\n", *(f"{text},{ts}\n" for text, ts in zip("ab", times, strict=True))]),
            )
        else:
            written(
                path,
                "".join(f'{{"text":"{text}","ts":{ts}}}\n' for text, ts in zip("ab", times, strict=True)),
            )
        prepared = prepare(path, tmp_path / "input.arrow", ts_unit=unit)
        assert rejected(prepared) == [(0 if first else 1, "the event time is missing or cannot be read")]
        assert content(prepared)["ts"] == [1_700_000_000_500_000] * 2

    @pytest.mark.parametrize(
        ("odd", "expected"),
        [("1" * 30, None), ("18446744073709551616", 18_446_744_073_709_551), ("1.5", 0), ("-1e3", -1)],
    )
    def test_one_time_among_exact_ones_of_json(self, tmp_path: Path, odd: str, expected: int | None) -> None:
        exact = 1_700_000_000_000_001_999
        lines = [f'{{"text":"a","ts":{ts}}}\n' for ts in (exact, odd, exact + 1)]
        prepared = prepare(written(tmp_path / "i.jsonl", "".join(lines)), tmp_path / "input.arrow")
        before, after = 1_700_000_000_000_001, 1_700_000_000_000_002
        assert content(prepared)["ts"] == [before, before if expected is None else expected, after]
        assert [row for row, _ in rejected(prepared)] == ([1] if expected is None else [])

    def test_the_list_is_bounded_and_the_count_exact(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spool, "REJECTED_LISTED", 3)
        monkeypatch.setattr(formats, "CHUNK_ROWS", 2)
        source = parquet(tmp_path / "i.parquet", text=[None, "a", None, None, "b", None, None])
        prepared = prepare(source, tmp_path / "input.arrow")
        assert prepared.rejected == 5
        assert [row for row, _ in rejected(prepared)] == [0, 2, 3]


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "body", "message"),
        [
            ("i.csv", b"id,body\n1,a\n", "the file has no column 'text'; its columns are 'id', 'body'"),
            ("i.jsonl", b'{"body":"a"}\n', "the file has no column 'text'; its columns are 'body'"),
            ("i.csv", b"", "the file is empty"),
            ("i.csv", b"id,text\n", "the file has no rows"),
            ("i.parquet", b"PAR1 not really", "the file cannot be read"),
            ("i.csv.gz", b"not gzip", "failed: Not a gzipped file"),
            ("i.xlsx", b"x", "the file's name ends in '.xlsx', which is no format that can be read"),
            (
                "i.csv",
                b"text\n\xff\n\xfe\n",
                "none of its 2 rows has usable text (mostly: the text is not UTF-8)",
            ),
            ("i.csv", b'text,x\n"a', "fields in the row: 1"),
        ],
    )
    def test_unusable_files(self, name: str, body: bytes, message: str, tmp_path: Path) -> None:
        source = written(tmp_path / name, body)
        with pytest.raises(SourceError) as caught:
            prepare(source, tmp_path / "t" / "input.arrow")
        assert message in str(caught.value)
        assert caught.value.where == str(source)
        assert caught.value.hint
        assert list((tmp_path / "t").glob("*")) == []
        if "usable text" not in message and "fields" not in message:
            with pytest.raises(SourceError, match=re.escape(message)):
                look(source)

    @pytest.mark.parametrize(
        ("name", "body", "line"),
        [
            ("a.jsonl", '{"text": "a"}\n{"text": "' + "a" * 100, 2),
            ("a.csv", 'text\n"' + "a" * 100, 2),
            ("a.csv", "text\na\n" + '"' + 'a","\n' * 50, 22),
        ],
    )
    def test_a_row_without_end(
        self, name: str, body: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bounded_lines, "LONGEST_ROW", 99)
        packed = written(tmp_path / f"{name}.gz", gzip.compress(body.encode()))
        with pytest.raises(SourceError, match=f"line {line} cannot be taken: it is longer"):
            look(packed)

    def test_a_row_without_end_in_a_file_of_rates(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bounded_lines, "LONGEST_ROW", 99)
        with pytest.raises(SourceError, match="a row of the file cannot be taken"):
            counts_read(written(tmp_path / "rates.csv", "time,count\n" + "a" * 100))

    def test_absent_file_and_directory(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"nix\.csv: there is no such file\. Give the path"):
            prepare(tmp_path / "nix.csv", tmp_path / "input.arrow")
        with pytest.raises(SourceError, match="this is a directory, not a file"):
            prepare(tmp_path, tmp_path / "input.arrow")

    def test_text_column_of_another_type(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="column 'text' holds double, not text"):
            prepare(parquet(tmp_path / "i.parquet", text=[1.5]), tmp_path / "input.arrow")
        source = parquet(tmp_path / "i.parquet", text=["a"], server=[True])
        with pytest.raises(SourceError, match="column 'server' holds bool, not text"):
            prepare(source, tmp_path / "input.arrow", partition_by="server")

    @pytest.mark.parametrize("name", ["i.parquet", "i.csv"])
    def test_no_column_that_decides_the_partition(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        source = parquet(path, text=["a"]) if name == "i.parquet" else written(path, "text\na\n")
        wanted = (
            r"the file has no column 'server'; its columns are 'text'\. Name the .* `partition_by` parameter"
        )
        for check in (look, lambda source, **options: prepare(source, tmp_path / "input.arrow", **options)):
            with pytest.raises(SourceError, match=wanted):
                check(source, partition_by="server")

    def test_empty_parquet(self, tmp_path: Path) -> None:
        source = parquet(tmp_path / "i.parquet", text=pa.array([], pa.string()))
        with pytest.raises(SourceError, match="the file has no rows"):
            prepare(source, tmp_path / "input.arrow")

    def test_bad_unit_and_unreadable_times(self, tmp_path: Path) -> None:
        source = parquet(tmp_path / "i.parquet", text=["a"], ts=["soon"])
        with pytest.raises(SourceError, match="ts_unit is 'h'; it must be one of auto, s, ms, us, ns"):
            prepare(source, tmp_path / "input.arrow", ts_unit="h")
        with pytest.raises(
            SourceError, match=r"no value of column 'ts' can be read as a time\. .*`ts` parameter"
        ):
            prepare(source, tmp_path / "input.arrow")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_unwritable_target(self, tmp_path: Path) -> None:
        target = tmp_path / "locked"
        target.mkdir(mode=0o500)
        with pytest.raises(SourceError, match="converting the input failed: Permission denied"):
            prepare(parquet(tmp_path / "i.parquet", text=["a"]), target / "input.arrow")

    def test_target_below_a_file(self, tmp_path: Path) -> None:
        written(tmp_path / "file", "x")
        with pytest.raises(SourceError, match="converting the input failed"):
            prepare(parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "file" / "input.arrow")


class TestTimes:
    @pytest.mark.parametrize(
        "times",
        [
            pa.array([1_700_000_000, 1_700_000_002, 1_700_000_001]),
            pa.array([1_700_000_000.0, 1_700_000_002.0, 1_700_000_001.0]),
            pa.array([1_700_000_000_000, 1_700_000_002_000, 1_700_000_001_000]),
            pa.array(["2023-11-14T22:13:20", "2023-11-14T22:13:22Z", "2023-11-14T23:13:21+01:00"]),
            pa.array(["1700000000", "1700000002", "1700000001"]),
            pa.array(
                list(map(Decimal, ("1700000000000000999", "1700000002000000000", "1700000001000000000")))
            ),
            pa.array(list(map(Decimal, ("1700000000.0000001", "1700000002", "1700000001")))),
            pa.array([datetime(2023, 11, 14, 22, 13, second, tzinfo=UTC) for second in (20, 22, 21)]),
            pa.array([1_700_000_000_000_000_999, 1_700_000_002_000_000_000, 1_700_000_001_000_000_000]),
            pa.array([datetime(2023, 11, 14, 22, 13, s) for s in (20, 22, 21)], pa.timestamp("ns")),  # noqa: DTZ001
        ],
    )
    def test_every_way_to_write_a_time(self, times: pa.Array, tmp_path: Path) -> None:
        prepared = prepare(
            parquet(tmp_path / "i.parquet", text=["a", "b", "c"], ts=times), tmp_path / "input.arrow"
        )
        found = content(prepared)
        base = 1_700_000_000_000_000
        assert found["ts"] == [base, base + 2_000_000, base + 1_000_000]
        assert found["watermark"] == [base, base + 1_000_000, base + 1_000_000]
        assert (prepared.first_us, prepared.last_us) == (base, base + 2_000_000)

    def test_times_that_begin_late_in_json_count(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(formats, "CHUNK_ROWS", 2)
        lines = ['{"text":"a"}'] * 5 + ["[1]", "", '{"text":"b","ts":7}']
        source = written(tmp_path / "i.jsonl", "\n".join(lines))
        prepared = prepare(source, tmp_path / "input.arrow")
        assert content(prepared)["text"] == [None] * 6 + ["b"]
        assert content(prepared)["ts"] == [7_000_000] * 7
        assert dict(rejected(prepared))[0] == "the event time is missing or cannot be read"
        assert not prepare(source, tmp_path / "input.arrow", ts="").has_ts

    @pytest.mark.parametrize("there", [True, False])
    def test_text_that_begins_late_in_json_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
    ) -> None:
        """A file without any is still refused before anything is started."""
        monkeypatch.setattr(formats, "CHUNK_ROWS", 2)
        lines = ['{"kind":"login"}'] * 5 + ['{"text":"a"}'] * there
        source = written(tmp_path / "i.jsonl", "\n".join(lines))
        if there:
            look(source)
            assert content(prepare(source, tmp_path / "input.arrow"))["text"] == [None] * 5 + ["a"]
        else:
            with pytest.raises(SourceError, match="the file has no column 'text'; its columns are 'kind'"):
                look(source)

    def test_a_column_without_a_name_gives_no_times_where_none_count(self, tmp_path: Path) -> None:
        source = written(tmp_path / "i.csv", ",text\nx,a\n")
        assert content(prepare(source, tmp_path / "input.arrow", ts="")) == {"text": ["a"]}

    def test_unit_given(self, tmp_path: Path) -> None:
        source = parquet(tmp_path / "i.parquet", text=["a", "b"], at=[0, 1500])
        prepared = prepare(source, tmp_path / "input.arrow", ts="at", ts_unit="ms")
        assert content(prepared)["ts"] == [0, 1_500_000]

    def test_rows_without_a_time_have_no_text_and_the_time_before(self, tmp_path: Path) -> None:
        source = written(tmp_path / "i.csv", "text,ts\na,\nb,100\nc,soon\nd,99\n")
        prepared = prepare(source, tmp_path / "input.arrow")
        assert content(prepared) == {
            "text": [None, "b", None, "d"],
            "ts": [100_000_000, 100_000_000, 100_000_000, 99_000_000],
            "watermark": [99_000_000] * 4,
        }
        assert prepared.rejected == 2

    def test_many_batches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(formats, "CHUNK_ROWS", 7)
        monkeypatch.setattr(spool, "BATCH_ROWS", 20)
        times = [(n * 37) % 101 + 1_000 for n in range(100)]
        source = parquet(tmp_path / "i.parquet", text=[f"t{n}" for n in range(100)], ts=times)
        prepared = prepare(source, tmp_path / "input.arrow", ts_unit="s")
        found = content(prepared)
        assert found["text"] == [f"t{n}" for n in range(100)]
        assert found["watermark"] == [min(times[n:]) * 1_000_000 for n in range(100)]
        with pa.memory_map(prepared.path) as mapped:
            assert pa.ipc.open_file(mapped).num_record_batches == 5


def flip(path: Path) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def swap(path: Path) -> None:
    """With that of another topology."""
    path.write_bytes((path.parents[1] / "u" / path.name).read_bytes())


def remove(path: Path) -> None:
    path.unlink()


DAMAGES = [flip, truncate, empty, swap, remove]


class TestRepeated:
    def test_a_second_call_does_nothing(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "t" / "input.arrow"
        first = prepare(source, target)
        stamp = target.stat().st_mtime_ns
        assert prepare(source, target, refresh=True) == first
        assert target.stat().st_mtime_ns == stamp
        assert sorted(path.name for path in target.parent.iterdir()) == [
            "input.arrow",
            "input.json",
            "input.rejected.jsonl",
        ]

    def test_other_parameters_convert_again(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"], body=["b"]), tmp_path / "input.arrow"
        prepare(source, target)
        assert content(prepare(source, target, text="body"))["text"] == ["b"]

    def test_a_changed_or_lost_original_is_reported_and_the_copy_kept(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "input.arrow"
        prepare(source, target)
        parquet(source, text=["b", "c"])
        kept = prepare(source, target)
        assert content(kept)["text"] == ["a"]
        assert [problem.what for problem in kept.problems] == ["the input file has changed since it was read"]
        source.unlink()
        assert [problem.what for problem in prepare(source, target).problems] == ["the input file is gone"]

    def test_the_same_content_written_again_is_no_change(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "input.arrow"
        prepare(source, target)
        stamp = target.stat().st_mtime_ns
        os.utime(source, ns=(1, 1))
        assert prepare(source, target, refresh=True).problems == []
        assert target.stat().st_mtime_ns == stamp

    def test_refresh_reads_a_changed_original(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "input.arrow"
        prepare(source, target)
        parquet(source, text=["b", "c"])
        assert content(prepare(source, target, refresh=True))["text"] == ["b", "c"]

    def test_a_conversion_cut_short_is_made_again(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "input.arrow"
        prepare(source, target)
        target.with_suffix(".json").unlink()
        target.write_bytes(b"half")
        assert content(prepare(source, target))["text"] == ["a"]

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_copy_is_made_again_from_the_same_original(
        self, tmp_path: Path, damage: Callable[[Path], None]
    ) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a", "b"]), tmp_path / "t" / "input.arrow"
        prepare(parquet(tmp_path / "other.parquet", text=["c", "d"]), tmp_path / "u" / "input.arrow")
        prepare(source, target)
        whole = target.read_bytes()
        os.utime(source, ns=(1, 1))
        damage(target)
        repaired = prepare(source, target)
        assert target.read_bytes() == whole
        (problem,) = repaired.problems
        assert problem.where == str(target)
        assert "made again" in problem.what
        assert prepare(source, target).problems == []

    @pytest.mark.parametrize("lost", [True, False])
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_copy_of_another_original_is_refused(
        self, tmp_path: Path, damage: Callable[[Path], None], lost: bool
    ) -> None:
        """Its tuples would not be those that the epochs before have read."""
        source, target = parquet(tmp_path / "i.parquet", text=["a", "b"]), tmp_path / "t" / "input.arrow"
        prepare(parquet(tmp_path / "other.parquet", text=["c", "d"]), tmp_path / "u" / "input.arrow")
        prepare(source, target)
        damage(target)
        source.unlink() if lost else parquet(source, text=["a", "x"])
        with pytest.raises(SourceError, match="the copy of the input is damaged") as refused:
            prepare(source, target)
        assert refused.value.where == str(target)
        parquet(source, text=["y"])
        assert content(prepare(source, target, refresh=True))["text"] == ["y"], "another deployment"

    @pytest.mark.parametrize("damage", [truncate, empty, swap])
    def test_damaged_facts_are_refused_by_their_name(
        self, tmp_path: Path, damage: Callable[[Path], None]
    ) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "t" / "input.arrow"
        prepare(source, tmp_path / "u" / "input.arrow")
        prepare(source, target)
        damage(target.with_suffix(".json"))
        with pytest.raises(SourceError) as refused:
            prepare(source, target)
        assert refused.value.where == str(target.with_suffix(".json"))
        assert content(prepare(source, target, refresh=True))["text"] == ["a"]

    def test_a_copy_of_a_version_without_checksums_is_read(self, tmp_path: Path) -> None:
        source, target = parquet(tmp_path / "i.parquet", text=["a"]), tmp_path / "input.arrow"
        prepare(source, target)
        facts = json.loads(target.with_suffix(".json").read_bytes())
        del facts["copy"]
        target.with_suffix(".json").write_text(json.dumps(facts))
        assert content(prepare(source, target))["text"] == ["a"]

    def test_progress_reaches_the_end(self, tmp_path: Path) -> None:
        seen: list[tuple[int, int]] = []
        source = written(tmp_path / "i.csv", "text\n" + "a\n" * 10)
        prepare(source, tmp_path / "input.arrow", progress=lambda done, total: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_long_texts_come_in_smaller_chunks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "CHUNK_TEXT", 20)
    texts = [f"text {number}" for number in range(10)]
    lines = ["text", *texts] if name == "a.csv" else [json.dumps({"text": text}) for text in texts]
    path = written(tmp_path / name, "\n".join(lines))
    rows = list(formats.rows_of(path, text="text", ts="", progress=lambda done, total: None))
    assert [len(one.text) for one in rows] == [4, 4, 2]
    assert [text for one in rows for text in one.text.to_pylist()] == texts


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_a_value_that_parquet_has_once_is_not_taken_for_all_rows_at_once(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "CHUNK_TEXT", 1_000)
    texts = [*["b"] * 10, *["a" * 250] * 10]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array(texts).cast(kind)}), path, row_group_size=10)
    rows = list(formats.rows_of(path, text="text", ts="", progress=lambda done, total: None, part="text"))
    assert max(len(one.text) for one in rows) == 4
    assert [text for one in rows for text in one.text.to_pylist()] == texts
    monkeypatch.setattr(formats, "LONGEST_ROW", 249)
    with pytest.raises(SourceError, match="a row cannot be taken: it is longer"):
        look(path)


def test_a_look_is_enough_for_a_good_file(tmp_path: Path) -> None:
    look(parquet(tmp_path / "i.parquet", text=["a"]))
    assert [path.name for path in tmp_path.iterdir()] == ["i.parquet"]


class TestPartitionColumn:
    """Rows get the number of their value in order, so that the reader can deal the values out."""

    SERVERS = ("b", "10", "9", "b", None, "9")

    @pytest.mark.parametrize("dictionary", [False, True])
    def test_parquet(self, tmp_path: Path, dictionary: bool) -> None:
        servers = pa.array(self.SERVERS)
        source = parquet(
            tmp_path / "i.parquet", page=[0, 1, 2, 3, 4, 5],
            server=servers.dictionary_encode() if dictionary else servers,
        )  # fmt: skip
        prepared = prepare(source, tmp_path / "input.arrow", text="page", partition_by="server")
        assert content(prepared)["text"] == ["0", "1", "2", "3", None, "5"]
        parts = content(prepared)["part"]
        assert [parts[row] for row in (0, 1, 2, 3, 5)] == [2, 0, 1, 2, 1]
        assert rejected(prepared) == [(4, "there is no server, which decides the partition")]

    def test_whole_numbers_in_every_format(self, tmp_path: Path) -> None:
        servers = [3, 20, 3, 1]
        columns: dict[str, list[Any]] = {"text": list("abcd"), "server": servers, "ts": [10, 20, 30, 40]}
        lines = [
            json.dumps({name: values[n] for name, values in columns.items()}) for n in range(len(servers))
        ]
        rows = [f"{text},{server},{ts}" for text, server, ts in zip(*columns.values(), strict=True)]
        sources = [
            parquet(tmp_path / "i.parquet", **columns),
            written(tmp_path / "i.jsonl", "\n".join(lines)),
            written(tmp_path / "i.csv", "\n".join(["text,server,ts", *rows])),
        ]
        for source in sources:
            prepared = prepare(source, tmp_path / "input.arrow", partition_by="server", ts_unit="us")
            found = content(prepared)
            assert (found["part"], found["ts"]) == ([2, 1, 2, 0], [10, 20, 30, 40]), source.name

    def test_another_column_makes_another_copy(self, tmp_path: Path) -> None:
        source = parquet(tmp_path / "i.parquet", text=list("ab"), server=["x", "y"], other=["y", "x"])
        target = tmp_path / "input.arrow"
        assert content(prepare(source, target, partition_by="server"))["part"] == [0, 1]
        assert content(prepare(source, target, partition_by="other"))["part"] == [1, 0]
        assert "part" not in content(prepare(source, target))
