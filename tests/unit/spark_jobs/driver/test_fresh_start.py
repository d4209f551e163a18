"""Deploying a name again: the outputs of the earlier run are moved aside, its other files removed."""

from __future__ import annotations

from pathlib import Path

from domain.execution.progress import Position
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.fresh_start import clear_earlier_deployment
from spark_jobs.driver.only_driver import LOCK, only_driver


def leave(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def clear(root: Path) -> EpochLog:
    log = EpochLog(root / "topologies" / "t" / "epochs.log")
    clear_earlier_deployment(
        topology="t", log=log, outputs=root / "outputs", checkpoints=f"file://{root}/checkpoints"
    )
    return log


def test_outputs_are_kept_and_the_rest_is_gone(tmp_path: Path) -> None:
    leave(tmp_path / "topologies/t/epochs.log", '{"t":"applied","generation":7,"epoch":3}\n')
    leave(tmp_path / "topologies/t/input/1.arrow", "x")
    leave(tmp_path / "topologies/t/input.json", "x")
    leave(tmp_path / "checkpoints/t/manifests/3/A-0.json", "x")
    leave(tmp_path / "checkpoints/other/manifests/3/A-0.json", "x")
    for run in ("first", "second"):
        leave(tmp_path / "outputs/t/A/partition=0/epoch=1/part.parquet", run)
        clear(tmp_path).close()
    assert [path.name for path in (tmp_path / "topologies/t").iterdir()] == ["epochs.log"]
    assert not (tmp_path / "checkpoints/t").exists()
    assert (tmp_path / "checkpoints/other").exists()
    kept = sorted(tmp_path.glob("outputs/t.until-*/A/partition=0/epoch=1/part.parquet"))
    assert sorted(path.read_text() for path in kept) == ["first", "second"]
    assert not (tmp_path / "outputs/t").exists()


def test_drivers_are_counted_over_all_deployments(tmp_path: Path) -> None:
    """Nodes keep the state of the run before: what is computed next must have higher attempts."""
    log = EpochLog(tmp_path / "topologies" / "t" / "epochs.log")
    log.start(at=5.0, origin_us=5)
    for _ in range(3):
        log.begin_life()
    log.applied(7, Position(4, {}, {}, 2), {"A[0]": "n1"})
    log.close()
    clear(tmp_path).close()  # and that driver died
    again = EpochLog(log.path)
    again.begin_life()
    assert (again.life, again.generation, again.head, again.homes) == (4, 0, 0, {})
    assert (again.origin_us, again.position) == (None, Position())
    again.close()


def test_what_a_cleared_log_says_is_what_is_on_disk(tmp_path: Path) -> None:
    log = EpochLog(tmp_path / "topologies" / "t" / "epochs.log")
    log.begin_life()
    log.start(at=5.0, origin_us=5)
    log.applied(7, Position(4, {}, {}, 2), {"A[0]": "n1"})
    log.close()
    cleared = clear(tmp_path)
    again = EpochLog(log.path)
    for name in ("life", "generation", "head", "homes", "origin_us", "started_at", "position", "plans"):
        assert getattr(cleared, name) == getattr(again, name), name
    cleared.close()
    again.close()


def test_clearing_nothing_is_fine(tmp_path: Path) -> None:
    clear(tmp_path).close()


def test_the_lock_of_the_driver_that_clears_stays(tmp_path: Path) -> None:
    """A new file of that name could be locked by a second driver."""
    directory = tmp_path / "topologies" / "t"
    with only_driver(directory, "t"):
        held = (directory / LOCK).stat().st_ino
        clear(tmp_path).close()
        assert (directory / LOCK).stat().st_ino == held
