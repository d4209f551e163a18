"""`make up` while an installation runs says what of the command takes effect after `make down` only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervision import last_start
from supervision.installation import variables_record
from supervision.last_start import code_digest, last_start_keep, last_start_notes

TOLD = {"INPUT": "tweets.parquet", "NODES": "4", "RATE": ""}
FOR = "Note      for {} run `make down`, then this command again"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an installation that was started with `TOLD`, by code whose digest is `old`."""
    (tmp_path / "run").mkdir()
    variables = {"RESURGE_PORT": "8000", "RESURGE_HOME": str(tmp_path), "RESURGE_SECRET_KEY": "key"}
    variables_record(tmp_path, variables)
    monkeypatch.setattr(os, "environ", TOLD)
    monkeypatch.setattr(last_start, "code_digest", lambda: "old")
    last_start_keep(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, []),
        (TOLD, []),
        ({"RESURGE_PORT": "8000", "RESURGE_MASK_COLUMNS": "", "RESURGE_URL": "http://elsewhere"}, []),
        (TOLD | {"INPUT": "other.parquet"}, [FOR.format("INPUT")]),
        (
            {"PIPELINE": "top-pages", "RESURGE_MASK_COLUMNS": "key"},
            [FOR.format("PIPELINE, RESURGE_MASK_COLUMNS")],
        ),
    ],
)
def test_what_has_no_effect_now_is_named(home: Path, named: dict[str, str], said: list[str]) -> None:
    assert last_start_notes(home, named) == said


def test_code_that_was_exchanged_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_start, "code_digest", lambda: "new")
    (note,) = last_start_notes(home, {})
    assert "another version" in note
    (home / "run" / "last-start.json").unlink()
    assert last_start_notes(home, {}) == [note], "that of a version that noted nothing"


def test_every_module_counts(tmp_path: Path) -> None:
    before = code_digest(tmp_path)
    module = tmp_path / "workers" / "tasks" / "one.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    after = code_digest(tmp_path)
    module.write_text("x = 1")
    assert len({before, after, code_digest(tmp_path)}) == 3
