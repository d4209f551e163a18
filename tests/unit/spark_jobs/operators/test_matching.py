"""Patterns of users: Python's meaning, whatever they are, and an end, whatever they do."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators import matching
from spark_jobs.operators.flat_map import FlatMapRegex
from spark_jobs.operators.matching import BATCH, LONGEST_PATTERN, pattern_matches, pattern_problems
from spark_jobs.operators.problems import OperatorError

ENDLESS = r"(\w+\s?)+$"
SLOW = "a" * 60 + "!"
"""On which `ENDLESS` would take longer than this machine will be there."""


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(matching, "SECONDS", 0.3)
    yield
    assert pattern_matches("b", None, ["ab"]) == ([0], ["b"]), "the next batch is matched"


def run(pattern: str, texts: list[str | None]) -> list[tuple[int, str]]:
    table = pa.table({"ts": pa.array(range(len(texts))), "text": pa.array(texts, pa.string())})
    found = FlatMapRegex({"pattern": pattern}, ["Source"]).matches(table)
    return list(zip(found.column("ts").to_pylist(), found.column("key").to_pylist(), strict=True))


def test_a_pattern_that_does_not_end_is_ended_and_named(short_limit: None) -> None:
    with pytest.raises(OperatorError, match=r"more than 0\.3 s of processor time for 2 rows") as caught:
        run(ENDLESS, ["short", SLOW])
    assert repr(ENDLESS) in caught.value.what
    assert "no repetition within a repetition" in caught.value.hint


def test_it_is_ended_in_other_threads_too(short_limit: None) -> None:
    """Jobs that replay beside the present run their operators in a thread."""
    raised: list[Exception] = []

    def replay() -> None:
        try:
            run(ENDLESS, [SLOW])
        except OperatorError as error:
            raised.append(error)

    thread = threading.Thread(target=replay)
    thread.start()
    thread.join()
    assert len(raised) == 1


def test_it_is_ended_where_the_signal_is_blocked(short_limit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_matcher", matching._Matcher())
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
    try:
        with pytest.raises(OperatorError, match="of processor time"):
            run(ENDLESS, [SLOW])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def test_the_same_pattern_works_where_it_ends() -> None:
    assert run(ENDLESS, ["two words", None, "", "no!"]) == [(0, "words")]


def test_a_long_text_is_given_more_time_and_batches_are_put_together() -> None:
    texts = ["x" * (BATCH // 2) + " end", "b", "c" * (2 * BATCH), "d", None, "e"]
    assert pattern_matches(r"\b\w{1,3}\b", None, texts) == ([0, 1, 3, 5], ["end", "b", "d", "e"])


_ATOMS = st.sampled_from(
    [
        *("a", "b", ".", r"\w", r"\W", r"\d", r"\s", "[ab]", "[^a]", r"\b", "^", "$", "é", "İ"),
        *("(a|b)", "(?:ab|a)", "(?=b)", "(?<!a)", "(a)?", "(?i:B)", r"(?P<n>a)", "|"),
    ]
)
_PATTERNS = st.lists(st.tuples(_ATOMS, st.sampled_from(["", "?", "*", "+", "{1,2}", "*?", "+?"])), max_size=5)
_TEXTS = st.lists(st.text(alphabet="abB é_1İσΣ\n", max_size=8), max_size=5)


def compiled(parts: list[tuple[str, str]]) -> re.Pattern[str] | None:
    text = "".join(atom + (times if atom not in {"|", "^", "$", r"\b"} else "") for atom, times in parts)
    try:
        return re.compile(text)
    except re.error:
        return None


@settings(max_examples=200, deadline=None)
@given(_PATTERNS.map(compiled).filter(bool), _TEXTS)
def test_every_pattern_means_what_it_means_to_python(expression: Any, texts: list[str]) -> None:
    assert pattern_problems(expression.pattern, None, simple=False) == []
    group = 1 if expression.groups == 1 else 0
    expected = [
        (row, found[group])
        for row, text in enumerate(texts)
        for found in expression.finditer(text)
        if found[group]
    ]
    assert list(zip(*pattern_matches(expression.pattern, None, texts), strict=True)) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(" * 499 + ")" * 499, "nested too deeply"),
        ("a{99999999999999}", "the repetition number is too large"),
        ("(", "missing )"),
        ("[\ud800-a]", "bad character range"),
        ("a" * (LONGEST_PATTERN + 1), "1001 characters; at most 1000"),
    ],
)
def test_patterns_that_cannot_be_used_are_refused_at_deployment(pattern: str, message: str) -> None:
    (problem,) = FlatMapRegex.problems({"pattern": pattern})
    assert message in problem


def test_a_pattern_that_takes_long_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "COMPILING", 0.1)
    (problem,) = FlatMapRegex.problems({"pattern": "(?i)" + "[\x00-\uffff]" * 190})
    assert "takes more than 0.1 s to read" in problem


@pytest.mark.parametrize("pattern", [r"#(?P<1a>\w+)", r"#(?P<é>\w+)"])
def test_a_simple_pattern_is_read_here(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_matcher", None)
    problems = FlatMapRegex.problems({"pattern": pattern})
    assert bool(problems) == ("1a" in pattern)


def test_a_process_that_was_ended_from_outside_is_started_again() -> None:
    assert pattern_matches("a", None, ["a"]) == ([0], ["a"])
    process = matching._matcher._process
    assert process is not None
    process.kill()
    with pytest.raises(OperatorError, match="ended with -9"):
        pattern_matches("a", None, ["a"])
    assert pattern_matches("a", None, ["a"]) == ([0], ["a"])


def test_a_forked_process_has_one_of_its_own() -> None:
    assert pattern_matches("a", None, ["a"]) == ([0], ["a"])
    ours = matching._matcher._process
    child = os.fork()
    if not child:
        found = pattern_matches("b", None, ["b"]) == ([0], ["b"]) and matching._matcher._process is not ours
        os._exit(0 if found else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pattern_matches("a", None, ["a"]) == ([0], ["a"])
    assert matching._matcher._process is ours
