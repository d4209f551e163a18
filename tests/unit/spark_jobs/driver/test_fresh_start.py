"""Deploying a name again: the earlier run's outputs are kept aside, everything else of it goes."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.driver.fresh_start import clear_earlier_deployment


def leave(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def clear(root: Path) -> None:
    clear_earlier_deployment(
        topology="t",
        directory=root / "topologies" / "t",
        outputs=root / "outputs",
        checkpoints=f"file://{root}/checkpoints",
    )


def test_outputs_are_kept_and_the_rest_is_gone(tmp_path: Path) -> None:
    leave(tmp_path / "topologies/t/epochs.log", "x")
    leave(tmp_path / "checkpoints/t/manifests/3/A-0.json", "x")
    leave(tmp_path / "checkpoints/other/manifests/3/A-0.json", "x")
    for run in ("first", "second"):
        leave(tmp_path / "outputs/t/A/partition=0/epoch=1/part.parquet", run)
        clear(tmp_path)
    assert not (tmp_path / "topologies/t").exists()
    assert not (tmp_path / "checkpoints/t").exists()
    assert (tmp_path / "checkpoints/other").exists()
    kept = sorted(tmp_path.glob("outputs/t.until-*/A/partition=0/epoch=1/part.parquet"))
    assert sorted(path.read_text() for path in kept) == ["first", "second"]
    assert not (tmp_path / "outputs/t").exists()


def test_clearing_nothing_is_fine(tmp_path: Path) -> None:
    clear(tmp_path)
