"""Rows are kept for users who look, as few as are shown, and only while one does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.executor import samples
from spark_jobs.executor.samples import sample_keep
from spark_jobs.state.node_home import forget_up_to, topologies_kept
from spark_jobs.state.sample_files import EPOCH, MOST_ROWS, sample_ask, sample_path, wanted_path


def rows(count: int, text: str = "x") -> pa.Table:
    return pa.table({"ts": pa.array(range(count), pa.int64()), "text": [f"{text}{n}" for n in range(count)]})


def kept(home: Path) -> tuple[int, list[str]] | None:
    path = sample_path(home, "t", "V[2]")
    if not path.exists():
        return None
    file = pq.ParquetFile(path)
    return int(file.metadata.metadata[EPOCH.encode()]), file.read().column("text").to_pylist()


def test_nothing_is_kept_while_no_user_looks(tmp_path: Path) -> None:
    sample_keep(tmp_path, "t", "V[2]", 1, rows(3))
    assert list(tmp_path.iterdir()) == []


def test_the_last_rows_of_the_newest_epoch_that_had_some(tmp_path: Path) -> None:
    sample_ask(tmp_path, "t", "V[2]")
    sample_keep(tmp_path, "t", "V[2]", 1, rows(120))
    assert kept(tmp_path) == (1, [f"x{n}" for n in range(120 - MOST_ROWS, 120)])
    sample_keep(tmp_path, "t", "V[2]", 2, rows(1, "y"))
    sample_keep(tmp_path, "t", "V[2]", 3, None)
    sample_keep(tmp_path, "t", "V[2]", 4, rows(0))
    sample_keep(tmp_path, "t", "V[3]", 5, rows(1))
    assert kept(tmp_path) == (2, ["y0"])
    file = pq.ParquetFile(sample_path(tmp_path, "t", "V[2]"))
    assert pa.types.is_timestamp(file.schema_arrow.field("ts").type)
    assert file.schema_arrow.names == ["ts", "text"]
    assert len(list((tmp_path / "samples" / "t").iterdir())) == 2, "no temporary file is left"


def test_they_go_when_no_user_looks_any_more(tmp_path: Path) -> None:
    sample_ask(tmp_path, "t", "V[2]")
    sample_keep(tmp_path, "t", "V[2]", 1, rows(1))
    before = time.time() - 40
    os.utime(wanted_path(tmp_path, "t", "V[2]"), (before, before))
    sample_keep(tmp_path, "t", "V[2]", 2, rows(1))
    assert list((tmp_path / "samples" / "t").iterdir()) == []


def test_asking_again_prolongs(tmp_path: Path) -> None:
    sample_ask(tmp_path, "t", "V[2]")
    os.utime(wanted_path(tmp_path, "t", "V[2]"), (1, 1))
    sample_ask(tmp_path, "t", "V[2]")
    sample_keep(tmp_path, "t", "V[2]", 2, rows(1))
    assert kept(tmp_path) == (2, ["x0"])


@pytest.mark.parametrize(("size", "left"), [(10, 50), (30_000, 25), (700_000, 1), (1_100_000, 0)])
def test_large_rows_are_fewer(tmp_path: Path, size: int, left: int) -> None:
    sample_ask(tmp_path, "t", "V[2]")
    sample_keep(tmp_path, "t", "V[2]", 1, rows(60, "x" * size))
    found = kept(tmp_path)
    assert found is not None
    assert len(found[1]) == left
    assert sample_path(tmp_path, "t", "V[2]").stat().st_size < 1.2 * samples.MOST_BYTES


def test_what_goes_wrong_concerns_no_partition(tmp_path: Path) -> None:
    sample_ask(tmp_path, "t", "V[2]")
    sample_path(tmp_path, "t", "V[2]").mkdir()
    sample_keep(tmp_path, "t", "V[2]", 1, rows(1))
    assert sorted(one.name for one in (tmp_path / "samples" / "t").iterdir()) == ["V-2.parquet", "V-2.wanted"]
    assert kept_after(tmp_path)


def kept_after(home: Path) -> bool:
    """Whether the next epoch is kept again."""
    sample_path(home, "t", "V[2]").rmdir()
    sample_keep(home, "t", "V[2]", 2, rows(1))
    return kept(home) == (2, ["x0"])


def test_a_node_that_is_not_here_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sample_ask(tmp_path / "node-9", "t", "V[2]")
    assert list(tmp_path.iterdir()) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "node" / "samples").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        sample_ask(tmp_path / "node", "t", "V[2]")
    (tmp_path / "link").symlink_to(tmp_path / "node")
    with pytest.raises(FileNotFoundError):
        sample_ask(tmp_path / "link", "t", "V[2]")
    marker = wanted_path(tmp_path / "node", "u", "V[2]")
    (tmp_path / "node" / "samples").unlink()
    marker.parent.mkdir(parents=True)
    marker.symlink_to(tmp_path / "elsewhere" / "made")
    with pytest.raises(OSError, match="symbolic"):
        sample_ask(tmp_path / "node", "u", "V[2]")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_they_go_with_their_topology(tmp_path: Path) -> None:
    sample_ask(tmp_path, "t", "V[2]")
    assert topologies_kept(tmp_path) == {"t"}
    forget_up_to(tmp_path, "t", 5, gone=False)
    assert wanted_path(tmp_path, "t", "V[2]").exists()
    forget_up_to(tmp_path, "t", 5, gone=True)
    assert topologies_kept(tmp_path) == set()
