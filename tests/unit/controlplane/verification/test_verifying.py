from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from controlplane.verification.problems import VerificationError
from controlplane.verification.verifying import Verification, topology_verify
from domain.topology import load_yaml
from domain.topology.spec import ParquetSinkSpec
from spark_jobs.sinks.committed import committed_read, deployment_directory
from spark_jobs.sinks.parquet import partition_path
from spark_jobs.sinks.parquet_sink import ParquetSink
from spark_jobs.sources.sample import sample_write
from tests.outputs import DEPLOYED, epochs_present, write_epoch
from tests.unit.controlplane.verification.small_engine import run, run_as_planned

PIPELINES = Path(__file__).resolve().parents[4] / "spark_jobs" / "pipelines"


def pipeline(name: str, **source: Any) -> dict[str, Any]:
    spec = load_yaml((PIPELINES / f"{name}.yaml").read_text(encoding="utf-8"))
    spec["operators"][0]["params"] |= source
    return spec


def verify(home: Path, spec: dict[str, Any], **options: Any) -> Verification:
    return topology_verify(spec=spec, home=home, outputs=home / "outputs", **options)


def faults(verification: Verification) -> dict[str, tuple[int, int, int, int]]:
    return {
        query.query: (query.missing, query.duplicate, query.unexpected, query.different)
        for query in verification.queries
        if not query.clean
    }


@pytest.fixture(scope="module")
def tweets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_write(tmp_path_factory.mktemp("input") / "tweets.parquet", tweets=3_000, seed=3)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tweets: Path) -> Path:
    home = tmp_path_factory.mktemp("run")
    run(home, pipeline("hashtags", rate=100, path=str(tweets)), source=tweets, epochs=30, tuples=300)
    return home


SAVED = 12
"""The epoch of a savepoint that a run of 30 epochs is made to begin with."""


class TestSavepoint:
    """As if epochs up to that of a savepoint were in the outputs of another deployment."""

    @pytest.fixture
    def home(self, tmp_path: Path, finished: Path, tweets: Path) -> Path:
        self.spec = pipeline("hashtags", rate=100, path=str(tweets))
        home = Path(shutil.copytree(finished, tmp_path / "home"))
        log = home / "topologies" / "hashtags" / "epochs.log"
        start, *rest = [json.loads(line) for line in log.read_bytes().splitlines()]
        start["after"] = next(one for one in rest if one["t"] == "plan" and one["epoch"] == SAVED)
        log.write_text("".join(json.dumps(one) + "\n" for one in (start, *rest)))
        self.aside = tmp_path / "aside"
        for directory in sorted(home.glob("outputs/hashtags/**/epoch=*")):
            if int(directory.name.partition("=")[2]) <= SAVED:
                target = self.aside / directory.relative_to(home)
                target.parent.mkdir(parents=True, exist_ok=True)
                directory.rename(target)
        return home

    def test_what_came_after_it_is_compared(self, home: Path, finished: Path) -> None:
        verification = verify(home, self.spec)
        assert faults(verification) == {}
        assert len(verification.queries) == 15
        assert all(query.expected == query.found > 0 for query in verification.queries)
        whole = verify(finished, self.spec)
        assert verification.tuples == whole.tuples
        assert all(
            after.expected < both.expected
            for after, both in zip(verification.queries, whole.queries, strict=True)
        )

    def test_a_row_that_was_given_before_is_unexpected(self, home: Path) -> None:
        epoch = epochs_present(self.aside / "outputs", "hashtags", "O1", 0)[-1]
        name = f"epoch={epoch}"
        again = partition_path(home / "outputs", "hashtags", DEPLOYED, "O1", 0) / name
        shutil.copytree(partition_path(self.aside / "outputs", "hashtags", DEPLOYED, "O1", 0) / name, again)
        rows = pq.read_metadata(again / "part.parquet").num_rows
        assert rows > 0
        assert faults(verify(home, self.spec)) == {"O1[0]": (0, 0, rows, 0)}

    def test_a_missing_epoch_is_found(self, home: Path) -> None:
        epoch = epochs_present(home / "outputs", "hashtags", "O1", 0)[0]
        path = partition_path(home / "outputs", "hashtags", DEPLOYED, "O1", 0) / f"epoch={epoch}"
        rows = pq.read_metadata(path / "part.parquet").num_rows
        shutil.rmtree(path)
        assert faults(verify(home, self.spec)) == {"O1[0]": (rows, 0, 0, 0)}


class TestHashtags:
    @pytest.fixture
    def home(self, tmp_path: Path, finished: Path, tweets: Path) -> Path:
        self.spec = pipeline("hashtags", rate=100, path=str(tweets))
        return Path(shutil.copytree(finished, tmp_path / "home"))

    def test_clean_run_is_exact_in_all_fifteen_queries(self, home: Path) -> None:
        verification = verify(home, self.spec)
        assert faults(verification) == {}
        assert verification.clean
        assert verification.tuples == {"Source": 9_000}
        assert len(verification.queries) == 15
        assert all(query.expected == query.found > 0 for query in verification.queries)

    def test_epochs_that_are_compacted_meanwhile_are_not_unexpected(self, home: Path) -> None:
        """The log was read when 27 epochs were committed; then the driver went on and compacted 26 to 30."""
        log = home / "topologies" / "hashtags" / "epochs.log"
        entries = [json.loads(line) for line in log.read_bytes().splitlines()]
        later = next(n for n, one in enumerate(entries) if one["t"] == "commit" and one["epoch"] > 27)
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:later]))
        outputs = home / "outputs"
        present = deployment_directory(outputs / "hashtags", DEPLOYED)
        operators = sorted(path.name for path in present.iterdir() if path.is_dir())
        sink = ParquetSink(outputs, "hashtags", ParquetSinkSpec(compact_s=5.0), operators=operators)
        sink.prepare(deployed=DEPLOYED, life=1)
        sink.commit(epoch=30)
        sink.put_in_order(30)
        sink.close()
        committed = committed_read(outputs / "hashtags")
        assert committed is not None
        assert committed.spans[-1].last == 30
        verification = verify(home, self.spec)
        assert (verification.epoch, faults(verification)) == (27, {})

    def test_missing_epoch_is_found(self, home: Path) -> None:
        epoch = epochs_present(home / "outputs", "hashtags", "O1", 0)[2]
        file = (
            partition_path(home / "outputs", "hashtags", DEPLOYED, "O1", 0)
            / f"epoch={epoch}"
            / "part.parquet"
        )
        rows = pq.read_metadata(file).num_rows
        file.unlink()
        assert faults(verify(home, self.spec)) == {"O1[0]": (rows, 0, 0, 0)}

    def test_missing_duplicated_changed_and_invented_rows_are_found(self, home: Path) -> None:
        epoch = epochs_present(home / "outputs", "hashtags", "O4", 0)[1]
        file = (
            partition_path(home / "outputs", "hashtags", DEPLOYED, "O4", 0)
            / f"epoch={epoch}"
            / "part.parquet"
        )
        table = pq.read_table(file, partitioning=None)
        changed = table.column("count").to_pylist()
        changed[5] += 1
        table = table.set_column(3, "count", pa.array(changed))
        invented = table.slice(0, 1).set_column(2, "key", pa.array(["not in the input"]))
        pq.write_table(pa.concat_tables([table.slice(1), table.slice(2, 1), invented]), file)
        verification = verify(home, self.spec, examples=10)
        assert faults(verification) == {"O4[0]": (1, 1, 1, 1)}
        (query,) = (query for query in verification.queries if not query.clean)
        assert sorted(finding.kind for finding in query.examples) == [
            "different", "duplicate", "missing", "unexpected",
        ]  # fmt: skip
        (different,) = (finding for finding in query.examples if finding.kind == "different")
        assert different.found == different.expected + 1

    def test_rows_after_the_committed_epoch_do_not_count(self, home: Path) -> None:
        log = home / "topologies" / "hashtags" / "epochs.log"
        with log.open("ab") as file:
            file.write(b'{"t":"applied","generation":3,"epoch":20}\n{"t":"commit","epoch":4')
        verification = verify(home, self.spec)
        assert verification.epoch == 20
        assert verification.clean

    def test_tentative_rows_are_counted_and_not_compared(self, home: Path) -> None:
        row = pa.table(
            {"window_start": [0], "window_end": [5], "key": ["x"], "count": [1], "status": ["tentative"]}
        )
        epoch = max(epochs_present(home / "outputs", "hashtags", "O0", 0))
        write_epoch(home / "outputs", "hashtags", "O0", 0, epoch - 1, row)
        verification = verify(home, self.spec)
        assert verification.queries[0].tentative == 1

    def test_a_changed_original_is_refused_and_a_copy_accepted(self, home: Path, tweets: Path) -> None:
        copy = home / "copy.parquet"
        copy.write_bytes(tweets.read_bytes())
        facts = home / "topologies" / "hashtags" / "input.json"
        noted = json.loads(facts.read_text())
        facts.write_text(json.dumps(noted | {"mtime_ns": 1}))
        assert verify(home, self.spec).clean
        facts.write_text(json.dumps(noted | {"mtime_ns": 1, "digest": "another"}))
        with pytest.raises(VerificationError, match="has changed since the topology started"):
            verify(home, self.spec)
        assert verify(home, self.spec, inputs={"Source": copy}).clean


def test_bounded_input_is_flushed_and_exact(tmp_path: Path, tweets: Path) -> None:
    spec = pipeline("hashtags", rate=100, path=str(tweets), limit=7_777)
    run(tmp_path, spec, source=tweets, epochs=1_000, tuples=333)
    verification = verify(tmp_path, spec)
    assert verification.final
    assert faults(verification) == {}
    last = max(finding["window_end"] for finding in _rows(tmp_path, "O3"))
    assert last > verification.watermark_us  # windows that the input did not fill are there


def _rows(home: Path, operator: str) -> list[dict[str, Any]]:
    table = pq.read_table(home / "outputs" / "hashtags" / f"deployed={DEPLOYED}" / operator)
    ends = pc.cast(table.column("window_end"), pa.int64()).to_pylist()
    return [{"window_end": end} for end in ends]


@pytest.mark.parametrize("name", ["trending", "mentions"])
@pytest.mark.parametrize("limit", [None, 8_000])
def test_other_pipelines_are_exact(name: str, limit: int | None, tmp_path: Path, tweets: Path) -> None:
    spec = pipeline(name, rate=100, path=str(tweets), **({"limit": limit} if limit else {}))
    run(tmp_path, spec, source=tweets, epochs=50, tuples=200)
    verification = verify(tmp_path, spec)
    assert faults(verification) == {}
    assert verification.clean
    assert not any(query.skipped for query in verification.queries)


def test_files_own_times_out_of_order_and_unusable_rows(tmp_path: Path) -> None:
    lines = []
    for n in range(2_000):
        shaken = 1_700_000_000_000 + n * 40 + (n * 7919 % 1_000) * 15
        lines.append({"ts": shaken, "text": f"#tag{n % 17} and #Other{n % 5}"})
    lines[10]["text"] = None
    lines[20]["ts"] = "never"
    source = tmp_path / "input.jsonl"
    body = "\n".join(json.dumps(line) for line in lines).encode()
    source.write_bytes(body.replace(b'"#tag3 and #Other0"', b'"#tag\xff"', 1))
    spec = pipeline("hashtags", path=str(source), limit=5_003)
    run(tmp_path, spec, source=source, epochs=1_000, tuples=197)
    verification = verify(tmp_path, spec)
    assert faults(verification) == {}
    assert all(query.expected > 0 for query in verification.queries)


def test_what_only_the_engine_can_run_is_said(tmp_path: Path, tweets: Path) -> None:
    spec = pipeline("trending", rate=100, path=str(tweets))
    spec["operators"].append(
        {"name": "Custom", "kind": "sql", "inputs": [{"from": "Counts"}], "output": True,
         "params": {"query": "SELECT * FROM input WHERE count > 1"}}
    )  # fmt: skip
    run(tmp_path, spec, source=tweets, epochs=40, tuples=200)
    verification = verify(tmp_path, spec)
    assert verification.clean
    (skipped,) = (query for query in verification.queries if query.skipped)
    assert skipped.skipped == "operator Custom is of kind sql, which only the engine can run"


@pytest.mark.parametrize(("time", "compared"), [("window_end", True), ("window_start", False)])
def test_windows_over_times_that_may_be_late(tmp_path: Path, tweets: Path, time: str, compared: bool) -> None:
    """The engine leaves out what comes behind the watermark; the end of a window never does."""
    spec = pipeline("trending", rate=100, path=str(tweets))
    spec["operators"] += [
        {"name": "Moved", "kind": "project", "inputs": [{"from": "Counts"}],
         "params": {"columns": {"ts": time, "key": "key"}}},
        {"name": "Again", "kind": "tumbling_window", "inputs": [{"from": "Moved"}], "output": True,
         "params": {"size_s": 5}},
    ]  # fmt: skip
    run(tmp_path, spec, source=tweets, epochs=40, tuples=200)
    verification = verify(tmp_path, spec)
    assert verification.clean
    again = next(query for query in verification.queries if query.operator == "Again")
    assert (again.expected > 0, "may be behind the watermark" in again.skipped) == (
        compared, not compared,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "compared"),
    [
        ([{"kind": "filter", "params": {"column": "key", "comparison": "!=", "value": "x"}}], True),
        ([{"kind": "project", "params": {"columns": {"ts": "ts", "word": "key"}}},
          {"kind": "project", "params": {"columns": {"ts": "ts", "key": "word"}}}], True),
        ([{"kind": "project", "params": {"columns": {"ts": "ts", "word": "key", "key": "key"}}}], True),
        ([{"kind": "flat_map_regex", "params": {"pattern": r"\w", "field": "key"}}], False),
    ],
)  # fmt: skip
def test_keys_that_stay_in_their_partitions(
    tmp_path: Path, tweets: Path, before: list[dict[str, Any]], compared: bool
) -> None:
    """Behind one-to-one streams, equal keys are together if they were so before, and are the same keys."""
    spec = pipeline("trending", rate=100, path=str(tweets))
    spec["operators"] = spec["operators"][:2]
    stream = {"from": "Parser", "partitioning": "full", "key": "key"}
    for number, operator in enumerate([*before, {"kind": "tumbling_window", "params": {"size_s": 10}}]):
        name = f"P{number}"
        spec["operators"].append({**operator, "name": name, "parallelism": 3, "inputs": [stream]})
        stream = {"from": name, "partitioning": "one_to_one"}
    spec["operators"][-1]["output"] = True
    run(tmp_path, spec, source=tweets, epochs=20, tuples=200)
    (query,) = verify(tmp_path, spec).queries
    assert (query.clean, query.expected > 0) == (True, compared)
    assert ("share values" in query.skipped) == (not compared)


def test_without_a_log_it_is_said_where_it_was_looked_for(tmp_path: Path, tweets: Path) -> None:
    with pytest.raises(VerificationError, match=r"epochs\.log: the epoch log cannot be read"):
        verify(tmp_path, pipeline("hashtags", path=str(tweets)))


def test_earlier_times_that_come_in_a_later_epoch(tmp_path: Path) -> None:
    seconds = [*range(40, 60), *range(10, 40), *range(60, 200)]
    lines = [json.dumps({"ts": 1_700_000_000 + second, "text": f"#tag{second % 3}"}) for second in seconds]
    source = tmp_path / "input.jsonl"
    source.write_text("\n".join(lines), encoding="utf-8")
    spec = pipeline("hashtags", path=str(source), limit=150)
    run(tmp_path, spec, source=source, epochs=1_000, tuples=10)
    assert faults(verify(tmp_path, spec)) == {}


@pytest.mark.parametrize("partitioning", ["full", "split"])
def test_what_depends_on_an_order_that_is_not_that_of_the_input(
    tmp_path: Path, tweets: Path, partitioning: str
) -> None:
    """Behind partitions over which rows were spread by key, those of one come after those of another."""
    spec = pipeline("trending", rate=100, path=str(tweets))
    first = spec["operators"][-1] | {"parallelism": 1, "params": {"columns": ["key"]}}
    spec["operators"][2:] = [first]
    spec["operators"][0]["parallelism"] = 1
    spec["operators"][1] |= {
        "parallelism": 4, "inputs": [{"from": "Source", "partitioning": partitioning, "key": "text"}]
    }  # fmt: skip
    run(tmp_path, spec, source=tweets, epochs=20, tuples=200)
    (query,) = verify(tmp_path, spec).queries
    assert query.skipped == "operator New (distinct) depends on the order of its input, which is not defined"


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "#cut \\ud83d"}',
        '{"text": "#nan", "size": NaN}',
        '{"text": "#huge", "size": 1e400}',
        "[" * 100_000,
    ],
)
def test_lines_that_the_engine_does_not_take_for_json(tmp_path: Path, line: str) -> None:
    source = tmp_path / "input.jsonl"
    source.write_text("".join(f'{{"text": "#tag{n % 7}"}}\n' for n in range(50)) + line + "\n")
    spec = pipeline("trending", rate=100, path=str(source), limit=500)
    run(tmp_path, spec, source=source, epochs=100, tuples=30)
    assert verify(tmp_path, spec).clean


def test_means_of_sums_that_no_fraction_holds(tmp_path: Path) -> None:
    """Times in microseconds: a few of them are beyond 2 ** 53 in sum, some thousands beyond 2 ** 63."""
    source = tmp_path / "input.jsonl"
    source.write_text("".join(json.dumps({"text": f"#tag{n % 100 // 99}"}) + "\n" for n in range(6_600)))
    spec = pipeline("trending", rate=1_000, path=str(source), limit=12_345)
    spec["operators"][2:] = [
        {"name": "Mean", "kind": "window_average", "inputs": [{"from": "Parser"}], "output": True,
         "params": {"value": "ts", "size_s": 10, "slide_s": 5}},
    ]  # fmt: skip
    run(tmp_path, spec, source=source, epochs=100, tuples=1_000)
    verification = verify(tmp_path, spec)
    assert (verification.clean, faults(verification)) == (True, {})
    assert verification.queries[0].expected > 4


@pytest.mark.parametrize(("size", "slide"), [(7, 3), (2.5, 0.4), (3, 2)])
@pytest.mark.parametrize("kind", ["sliding_window", "window_average"])
def test_windows_whose_size_is_no_multiple_of_their_slide(
    tmp_path: Path, tweets: Path, kind: str, size: float, slide: float
) -> None:
    spec = pipeline("trending", rate=100, path=str(tweets))
    params = {"size_s": size, "slide_s": slide, **({"value": "ts"} if kind == "window_average" else {})}
    spec["operators"][2:] = [spec["operators"][2] | {"kind": kind, "params": params, "output": True}]
    run(tmp_path, spec, source=tweets, epochs=12, tuples=100)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    assert verification.queries[0].expected > 20


def test_decimals_in_nanoseconds(tmp_path: Path) -> None:
    """No fraction holds them."""
    times = [Decimal((1_700_000_000 + n) * 10**9 + n * 1_001 + 999) for n in range(60)]
    source = tmp_path / "input.parquet"
    column = pa.array(times, pa.decimal128(25, 1))
    pq.write_table(pa.table({"ts": column, "text": [f"#tag{n % 5}" for n in range(60)]}), source)
    spec = pipeline("trending", path=str(source), limit=150)
    run(tmp_path, spec, source=source, epochs=100, tuples=20)
    assert faults(verify(tmp_path, spec)) == {}


def test_a_partition_is_decided_by_texts_and_whole_numbers(tmp_path: Path) -> None:
    source = tmp_path / "input.jsonl"
    values = [1, "x", None, True, 1.5, 2]
    lines = [json.dumps({"text": f"#tag{n % 7}", "server": values[n % 6]}) for n in range(60)]
    source.write_text("\n".join(lines))
    spec = pipeline("trending", path=str(source), rate=100, limit=150, partition_by="server")
    spec["operators"][2:] = [
        {"name": "W", "kind": "tumbling_window", "parallelism": 2, "params": {"size_s": 1}, "output": True,
         "inputs": [{"from": "Parser", "partitioning": "one_to_one"}]},
    ]  # fmt: skip
    run_as_planned(tmp_path, spec, epochs=5)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)


def test_a_status_of_the_operator_itself_is_compared_as_any_column(tmp_path: Path) -> None:
    source = tmp_path / "logs.csv"
    source.write_text("text\n200\nfinal\n404\n200\n")
    spec = {
        "name": "statuses",
        "operators": [
            {"name": "S", "kind": "source", "params": {"path": str(source), "rate": 1, "limit": 4}},
            {
                "name": "P",
                "kind": "project",
                "inputs": [{"from": "S", "key": "text"}],
                "params": {"columns": {"ts": "ts", "status": "text"}},
                "output": True,
            },
        ],
    }
    run(tmp_path, spec, source=source, epochs=2, tuples=2)
    (query,) = verify(tmp_path, spec).queries
    assert (query.error, query.clean, query.found, query.tentative) == ("", True, 4, 0)
    partition = partition_path(tmp_path / "outputs", "statuses", DEPLOYED, "P", 0)
    (partition / "epoch=1" / "part.parquet").unlink()
    (query,) = verify(tmp_path, spec).queries
    assert query.missing == 2


def test_columns_whose_names_differ_in_case_only_are_left_out_with_the_reason(tmp_path: Path) -> None:
    source = tmp_path / "words.csv"
    source.write_text("text\na\nb\n")
    inputs = [{"from": "S", "key": "text"}]
    columns = {"ts": "ts", "word": "text", "Word": "ts"}
    spec = {
        "name": "words",
        "operators": [
            {"name": "S", "kind": "source", "params": {"path": str(source), "rate": 1, "limit": 2}},
            {
                "name": "P",
                "kind": "project",
                "inputs": inputs,
                "params": {"columns": columns},
                "output": True,
            },
        ],
    }
    run(tmp_path, spec, source=source, epochs=1, tuples=2)
    (query,) = verify(tmp_path, spec).queries
    assert "differ in case only" in query.skipped
    assert not query.error


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1e30, 5.0, 125.0, 240.0]),
        pa.array([2**31 - 1, 0, 1, 2], pa.int32()).cast(pa.date32()),
    ],
    ids=["numbers", "dates"],
)
def test_times_that_are_too_far_away_are_as_the_engine_has_them(tmp_path: Path, times: pa.Array) -> None:
    """Their rows are not used, and they do not tell the unit of the others."""
    source = tmp_path / "far.parquet"
    pq.write_table(pa.table({"text": ["#a", "#b", "#c", "#b"], "ts": times}), source)
    spec = pipeline("hashtags", path=str(source), limit=4)
    run(tmp_path, spec, source=source, epochs=2, tuples=2)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean, verification.final) == ({}, True, True)
    assert sum(query.found for query in verification.queries) > 15
