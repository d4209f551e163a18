"""A partition whose operator fails on a row says which; one that works keeps rows for those who look."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domain.execution.faults import Faults
from domain.execution.instructions import TellProblem
from domain.execution.job import Job, PartitionReport
from domain.execution.lanes import Lane
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.exchange import encode_table
from spark_jobs.executor.level_context import LevelContext
from spark_jobs.executor.partition_run import PartitionRun
from spark_jobs.operators import failing_row as module
from spark_jobs.state.sample_files import sample_ask, sample_path
from tests.unit.spark_jobs.executor.layouts import epochs_to, layout_of

SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        OperatorSpec(
            name="V",
            kind="sql",
            params={"query": "SELECT text::INT AS number FROM input"},
            inputs=(InputSpec(source="S", partitioning="one_to_one"),),
            output=True,
        ),
    ),
)


def report_of(root: Path, *texts: str, masked: Sequence[str] = ()) -> PartitionReport:
    layout = layout_of(SPEC, root, "V[0]", masked=list(masked))
    lane = Lane(1, 1, {"S[0]": 0, "V[0]": 0})
    job = Job(lane=lane, epochs=epochs_to(1), progress={"S[0]": 0, "V[0]": 0})
    level = LevelContext(1, 0, msgspec.json.encode(layout), msgspec.json.encode(job))
    level.deliver((1, ["V[0]"], "S[0]", 1, encode_table(pa.table({"text": list(texts)}))))
    return PartitionRun(level, lane, "V[0]").execute()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_HOME", str(tmp_path / "node-1"))


def test_the_row_reaches_the_problem(tmp_path: Path) -> None:
    report = report_of(tmp_path, "1", "2", "bad", "3")
    assert report.epoch == 0
    assert report.error.startswith("OperatorError: the query failed: Conversion Error")
    assert json.loads(report.row) == {"text": "bad"}
    told = [one for one in Faults().take({"V[0]": report}, 1.0) if isinstance(one, TellProblem)]
    assert [(one.where, one.row) for one in told] == [("V[0]", report.row)]


def test_neither_the_row_nor_the_text_tells_what_is_masked(tmp_path: Path) -> None:
    plain = report_of(tmp_path, "1", "it's 5")
    assert "it's 5" in plain.error
    module._found.clear()
    report = report_of(tmp_path, "1", "it's 5", masked=["text", "other"])
    assert report.error == plain.error.replace("it's 5", "•••")
    assert json.loads(report.row) == {"text": "•••"}


def test_a_long_row_makes_no_long_error(tmp_path: Path) -> None:
    report = report_of(tmp_path, "1", "x" * 1_000_000)
    assert len(report.error) < 2_000
    assert report.error.startswith("OperatorError: the query failed: Conversion Error")
    assert report.error.endswith("(input has text)")
    module._found.clear()
    report = report_of(tmp_path, "1", "y" * 1_000_000, masked=["text"])
    assert report.error.startswith("OperatorError: its text is too long to be told")
    assert "yy" not in report.error


def test_rows_are_kept_for_those_who_look(tmp_path: Path) -> None:
    home = tmp_path / "node-1"
    home.mkdir()
    report_of(tmp_path, "1")
    assert not sample_path(home, "t", "V[0]").exists()
    sample_ask(home, "t", "V[0]")
    report_of(tmp_path, "1", "2")
    assert pq.ParquetFile(sample_path(home, "t", "V[0]")).read().column("number").to_pylist() == [1, 2]


def test_a_partition_that_works_names_none(tmp_path: Path) -> None:
    report = report_of(tmp_path, "1", "2")
    assert (report.epoch, report.error, report.row) == (1, "", "")
