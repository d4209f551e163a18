"""Where `make test` has its temporary files."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervision import checks

MANY = 1 << 30
FEW = checks.ROOM // 4096 - 1


@pytest.mark.parametrize(
    ("blocks", "flags", "fits"),
    [(MANY, 0, True), (FEW, 0, False), (MANY, os.ST_NOEXEC, False), (MANY, os.ST_NOSUID, True)],
)
def test_files_are_in_memory_where_there_is_room_and_programs_may_be_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocks: int, flags: int, fits: bool
) -> None:
    def statvfs(path: Path) -> Any:
        assert path == tmp_path
        return SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_flag=flags)

    monkeypatch.setattr(checks, "MEMORY", tmp_path)
    monkeypatch.setattr(os, "statvfs", statvfs)
    assert checks.memory_directory() == (tmp_path if fits else None)


def test_without_such_a_place_they_are_where_temporary_files_always_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "MEMORY", tmp_path / "missing")
    assert checks.memory_directory() is None
