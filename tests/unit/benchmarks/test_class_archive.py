"""Benchmarks of recoveries have the class archive of an installation."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from benchmarks import class_archive
from benchmarks.class_archive import class_archive_ensure


@pytest.mark.parametrize(
    ("options", "expected", "builds"),
    [
        (["-XX:SharedArchiveFile=a"], True, 0),
        (["", "-XX:SharedArchiveFile=a"], True, 1),
        (["", ""], False, 1),
    ],
    ids=["there is one", "it is made", "it cannot be made"],
)
def test_it_is_made_where_there_is_none(
    options: list[str], expected: bool, builds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        commands.append(command)

    monkeypatch.setattr(class_archive, "class_archive_options", lambda: options.pop(0))
    monkeypatch.setattr(subprocess, "run", run)
    assert class_archive_ensure(said.append) is expected
    assert [command[1:] for command in commands] == [["-m", "supervision.class_archive_build"]] * builds
    assert any("no class archive" in text for text in said) is not expected
