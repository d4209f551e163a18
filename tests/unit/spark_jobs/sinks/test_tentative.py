"""Tentative rows are stored apart from the final ones, and say what they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domain.topology.spec import ParquetSinkSpec
from spark_jobs.sinks.base import SinkError
from spark_jobs.sinks.committed import Committed, committed_files, committed_read
from spark_jobs.sinks.compaction import remove_replaced
from spark_jobs.sinks.parquet import OutputFiles
from spark_jobs.sinks.parquet_sink import ParquetSink
from spark_jobs.sinks.tentative import FIDELITY, tentative_path
from spark_jobs.sinks.writing import root_mark
from tests.outputs import DEPLOYED, write_epoch
from tests.unit.spark_jobs.sinks.test_parquet import INSTANT, rows


@pytest.fixture(autouse=True)
def _marked(tmp_path: Path) -> None:
    """A driver has marked the directory before its tasks work."""
    root_mark(tmp_path, force=False)


def file_of(root: Path, epoch: int) -> Path:
    return tentative_path(root, "t", DEPLOYED, "O0", 0) / f"epoch={epoch}" / "part.parquet"


def test_tentative_rows_are_marked_and_no_reader_of_final_rows_sees_them(tmp_path: Path) -> None:
    outputs = OutputFiles(tmp_path, "t", deployed=DEPLOYED)
    write_epoch(tmp_path, "t", "O0", 0, 6, rows("a"))
    written = outputs.write_tentative("O0", 0, 7, rows("a", "bb"), 0.75)
    assert (written.rows, written.bytes) == (2, file_of(tmp_path, 7).stat().st_size)
    table = pq.ParquetFile(file_of(tmp_path, 7)).read()
    assert table.schema.field("window_start").type == INSTANT
    assert table.column("status").to_pylist() == ["tentative"] * 2
    assert table.column(FIDELITY).to_pylist() == [0.75, 0.75]
    committed = Committed(topology="t", deployed=DEPLOYED, epoch=7)
    (final,) = committed_files(tmp_path / "t", "O0", committed)
    assert final.parent.name == "epoch=6"


@pytest.mark.parametrize("empty", [None, rows()])
def test_written_again_without_rows_there_is_no_file(tmp_path: Path, empty: pa.Table | None) -> None:
    outputs = OutputFiles(tmp_path, "t", deployed=DEPLOYED)
    outputs.write_tentative("O0", 0, 7, rows("a"), 0.5)
    assert outputs.write_tentative("O0", 0, 7, empty, 0.5).rows == 0
    assert not file_of(tmp_path, 7).parent.exists()


def test_a_status_of_the_operator_gives_way(tmp_path: Path) -> None:
    table = pa.table({"word": ["a"], "status": ["final"], FIDELITY: [7]})
    OutputFiles(tmp_path, "t", deployed=DEPLOYED).write_tentative("O0", 0, 1, table, 0.25)
    (row,) = pq.ParquetFile(file_of(tmp_path, 1)).read().to_pylist()
    assert row == {"word": "a", "status": "tentative", FIDELITY: 0.25}


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("in the way")
    outputs = OutputFiles(tmp_path, "t", deployed=DEPLOYED)
    with pytest.raises(SinkError, match=r"the output of O0\[0\] for epoch 3 cannot be written"):
        outputs.write_tentative("O0", 0, 3, rows("a"), 0.5)


def test_tentative_rows_go_with_the_small_files_of_their_epochs(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, "t", ParquetSinkSpec(compact_s=5.0), operators=["O0"], force=False)
    sink.prepare(deployed=DEPLOYED, life=1)
    outputs = sink.outputs(deployed=DEPLOYED, attempt=0, life=1)
    for epoch in range(1, 9):
        outputs.write("O0", 0, epoch, rows("a"))
        outputs.write_tentative("O0", 0, epoch, rows("a"), 0.5)
    assert not outputs.settle()
    sink.commit(epoch=8)
    sink.put_in_order(7)
    assert file_of(tmp_path, 5).exists(), "they may be compared still"
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    remove_replaced(tmp_path / "t" / f"deployed={DEPLOYED}", committed, grace=0.0)
    assert [epoch for epoch in range(1, 9) if file_of(tmp_path, epoch).exists()] == [6, 7, 8]
    sink.close()
