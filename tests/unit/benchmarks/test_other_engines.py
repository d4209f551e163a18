"""What clusters of other engines say when they do not get as far as they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.other_engines import last_words, wait_for


class EngineError(RuntimeError):
    """Of this test."""


def test_errors_are_said_before_what_came_last(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    assert last_words(log) == "no log"
    log.write_text("one\ntwo\nthree\nfour\n")
    assert last_words(log) == "two | three | four"
    log.write_text("10:00 ERROR no room\njava.lang.IllegalStateException\nlast\n")
    assert last_words(log) == "10:00 ERROR no room | java.lang.IllegalStateException"


def test_waiting_ends_with_the_state_or_with_what_the_log_says(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("only this\n")
    answers = iter((False, True))
    wait_for(lambda: next(answers), "state", timeout=60, log=log, error=EngineError)
    with pytest.raises(EngineError, match=r"no state within 0 s: only this"):
        wait_for(lambda: False, "state", timeout=0, log=log, error=EngineError)


def test_what_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    def check() -> None:
        raise EngineError("it has ended")

    with pytest.raises(EngineError, match="it has ended"):
        wait_for(lambda: False, "state", timeout=60, log=tmp_path / "log", error=EngineError, check=check)
