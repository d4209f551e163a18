"""What a deleted topology has stored is removed; its outputs only if that was chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from host import environment
from host.environment import Environment
from spark_jobs.driver.epoch_log import EpochLog, epoch_log_directory
from spark_jobs.driver.withdrawal import withdraw


@pytest.fixture
def settings(tmp_path: Path) -> Environment:
    return replace(
        environment.read(),
        home=tmp_path,
        outputs=str(tmp_path / "outputs"),
        checkpoints=str(tmp_path / "saved"),
    )


def ran(settings: Environment, topology: str) -> None:
    """A topology has run: outputs, checkpoints, input, Spark's files and an epoch log are there."""
    home = settings.home
    directory = epoch_log_directory(home, topology)
    for path in (
        home / "outputs" / topology / "O0" / "part.parquet",
        home / "saved" / topology / "4" / "manifest",
        directory / "input.arrow",
        home / "spark" / topology / "shuffle",
    ):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    log = EpochLog(directory / "epochs.log")
    log.begin_life()
    log.start(at=1.0, origin_us=1)
    log.close()


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_everything_but_the_outputs_goes(settings: Environment) -> None:
    ran(settings, "t")
    withdraw(settings, "t", keep_outputs=True)
    outputs, log = files(settings.home)
    assert outputs.startswith("outputs/t.until-")
    assert log == "topologies/t/epochs.log"


def test_outputs_go_where_that_was_chosen(settings: Environment) -> None:
    ran(settings, "t")
    ran(settings, "other")
    withdraw(settings, "t", keep_outputs=False)
    left = files(settings.home)
    assert [one for one in left if "other" not in one] == ["topologies/t/epochs.log"]
    assert sum("other" in one for one in left) == 5


def test_the_log_goes_on_counting_drivers(settings: Environment) -> None:
    """Nodes may still have state of attempts with these numbers."""
    ran(settings, "t")
    withdraw(settings, "t", keep_outputs=False)
    log = EpochLog(epoch_log_directory(settings.home, "t") / "epochs.log")
    assert (log.life, log.started_at, log.head) == (1, None, 0)
    log.close()


@pytest.mark.parametrize("times", [1, 2])
def test_it_can_be_repeated(settings: Environment, times: int) -> None:
    for _ in range(times):
        withdraw(settings, "t", keep_outputs=True)


def test_a_damaged_log_does_not_prevent_it(settings: Environment) -> None:
    ran(settings, "t")
    path = epoch_log_directory(settings.home, "t") / "epochs.log"
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    withdraw(settings, "t", keep_outputs=False)
    assert files(settings.home) == ["topologies/t/epochs.log"]
