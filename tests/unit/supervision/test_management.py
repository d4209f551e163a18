"""Commands of `manage.py` in a shell that knows nothing of what `make up` was told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.db import OperationalError

from supervision.installation import variables_record
from supervision.management import command_run

EXECUTE = "django.core.management.execute_from_command_line"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a shell that names the installation."""
    (tmp_path / "run").mkdir()
    told = {"RESURGE_DATABASE_URL": "sqlite:///srv/told", "RESURGE_OUTPUTS": "/srv/told"}
    variables_record(tmp_path, {**told, "RESURGE_INSTANCE": "5", "RESURGE_THETA": "2"})
    shell = {"RESURGE_HOME": str(tmp_path), "RESURGE_THETA": "3", "RESURGE_OUTPUTS": ""}
    monkeypatch.setattr(os, "environ", shell)
    return shell


@pytest.mark.parametrize(("command", "joins"), [("verify", True), ("check", False)])
def test_a_command_takes_what_make_up_was_told(
    shell: dict[str, str], monkeypatch: pytest.MonkeyPatch, command: str, joins: bool
) -> None:
    seen: list[Sequence[str]] = []
    monkeypatch.setattr(EXECUTE, seen.append)
    command_run(["manage.py", command])
    assert seen == [["manage.py", command]]
    assert shell.get("RESURGE_DATABASE_URL") == ("sqlite:///srv/told" if joins else None)
    assert shell["RESURGE_OUTPUTS"] == ("/srv/told" if joins else ""), "set and empty counts as not given"
    assert shell["RESURGE_THETA"] == "3"
    assert "RESURGE_INSTANCE" not in shell, "`make down` would kill it"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no such table: topologies_topology", "name RESURGE_HOME"),
        ('relation "topologies_topology" does not exist\nLINE 1: ...', "name RESURGE_HOME"),
        ("no such column: topologies_topology.new", "`make down`, then `make up`"),
        ("column topologies_topology.new does not exist\nLINE 1: ...", "`make down`, then `make up`"),
        ("connection refused", "cannot be used: connection refused"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_a_line(
    shell: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
    told: str,
) -> None:
    def fail(_: Sequence[str]) -> None:
        raise OperationalError(said)

    monkeypatch.setattr(EXECUTE, fail)
    with pytest.raises(SystemExit, match="2"):
        command_run(["manage.py", "verify", "hashtags"])
    assert told in (line := capsys.readouterr().err)
    assert line.count("\n") == 1
