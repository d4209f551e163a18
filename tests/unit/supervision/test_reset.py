"""A new start deletes what ran, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervision.__main__ import main
from supervision.installation import compose
from supervision.reset import NotResetError, reset
from supervision.screen import Progress

RAN = (
    "db/resurge.sqlite3",
    "zookeeper/data/log.1",
    "checkpoints/one/1",
    "topologies/one/epochs.log",
    "nodes/node-1/state",
    "spark/one/x",
    "redis/dump",
    "run/main-job.json",
    "run/drivers/one.completed",
)
STAY = (
    "input/sample.parquet",
    "log/web.log",
    "run/access.json",
    "run/profile.json",
    "run/environment",
    "mine/notes",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("RESURGE_") or name == "YES":
            monkeypatch.delenv(name)
    monkeypatch.setattr("supervision.__main__._ignore_signals", lambda: None)  # those of this process
    made = tmp_path / "home"
    made.mkdir()
    compose(made)
    for name in (*RAN, *(set(STAY) - {"run/environment"}), "outputs/one/rows"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    return made


def quiet() -> Progress:
    return Progress(quiet=True)


def test_what_ran_is_gone_and_outputs_have_another_name(home: Path) -> None:
    kept = reset(home, quiet())
    assert kept is not None
    assert (kept / "one" / "rows").read_text() == "outputs/one/rows"
    assert [name for name in RAN if (home / name).exists()] == []
    assert [name for name in STAY if not (home / name).exists()] == []
    assert not (home / "outputs").exists()
    assert reset(home, quiet()) is None, "once more changes nothing"
    assert (kept / "one" / "rows").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RESURGE_DATABASE_URL", "postgres://resurge@db/resurge"),
        ("RESURGE_ZOOKEEPER", "zk:2181"),
        ("RESURGE_CHECKPOINTS", "s3://bucket/checkpoints"),
        ("RESURGE_OUTPUTS", "/srv/outputs"),
        ("RESURGE_DATABASE_URL", "sqlite:///{home}/data/resurge.sqlite3"),
        ("RESURGE_DATABASE_URL", "sqlite://:memory:"),
        ("RESURGE_CHECKPOINTS", "file://{home}/state"),
        ("RESURGE_CHECKPOINTS", "s3://bucket{home}/checkpoints"),
        ("RESURGE_OUTPUTS", "{home}/results"),
        ("RESURGE_OUTPUTS", "{home}/outputs/../results"),
    ],
)
def test_nothing_is_deleted_where_a_part_is_elsewhere(
    home: Path, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value.format(home=home))
    compose(home)
    with pytest.raises(NotResetError, match=name):
        reset(home, quiet())
    assert [one for one in RAN if not (home / one).exists()] == []


def test_nothing_is_deleted_where_a_place_is_a_link(home: Path) -> None:
    (home / "checkpoints").rename(home.parent / "state")
    (home / "checkpoints").symlink_to(home.parent / "state")
    with pytest.raises(NotResetError, match="RESURGE_CHECKPOINTS"):
        reset(home, quiet())
    assert [one for one in RAN if not (home / one).exists()] == []


def test_the_usual_places_may_be_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESURGE_DATABASE_URL", f"sqlite:///{home}/db/other.sqlite3")
    monkeypatch.setenv("RESURGE_CHECKPOINTS", f"{home}/checkpoints/")
    monkeypatch.setenv("RESURGE_OUTPUTS", f"{home}/log/../outputs")
    compose(home)
    assert reset(home, quiet()) is not None
    assert [name for name in RAN if (home / name).exists()] == []


def test_it_asks_first(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RESURGE_HOME", str(home))
    monkeypatch.setattr("sys.argv", ["supervision", "reset"])
    assert main() == 2
    said = capsys.readouterr()
    assert "deleted for good" in said.out
    assert "make reset YES=1" in said.err
    assert (home / "db" / "resurge.sqlite3").exists()
    monkeypatch.setenv("YES", "1")
    assert main() == 0
    assert not (home / "db").exists()


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    with pytest.raises(NotResetError, match="nothing was ever started"):
        reset(tmp_path, quiet())
    assert (tmp_path / "db").exists()
