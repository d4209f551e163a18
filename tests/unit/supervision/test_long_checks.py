"""`make test-long` runs all requested parts, and fails if one of them failed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable

import pytest

from supervision import long_checks
from supervision.checks import INSTALLATIONS, SKIPPED, WAITING
from tests.examples import ALL

Long = Callable[..., tuple[int, list[list[str]], list[list[list[str]]]]]


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> Long:
    """Call it with simulated commands; returns the exit code, the commands and the tests."""

    def call(
        *arguments: str, failing: str = "", skipping: str = ""
    ) -> tuple[int, list[list[str]], list[list[list[str]]]]:
        commands: list[list[str]] = []
        tests: list[list[list[str]]] = []

        def command_run(command: list[str]) -> int:
            assert os.environ["RESURGE_TEST_EXAMPLES"] == ALL
            commands.append(command[2:])
            return SKIPPED if command[2] == skipping else int(command[2] == failing)

        def run_together(groups: list[list[str]]) -> list[str]:
            tests.append(groups)
            return ["pytest" for chosen in groups if failing in chosen]

        monkeypatch.setenv("RESURGE_TEST_EXAMPLES", "same")
        monkeypatch.setattr(long_checks, "command_run", command_run)
        monkeypatch.setattr(long_checks, "run_together", run_together)
        monkeypatch.setattr(sys, "argv", ["long_checks", *arguments])
        return long_checks.main(), commands, tests

    return call


def test_everything_is_run_and_exists(long: Long) -> None:
    code, commands, tests = long()
    assert code == 0
    assert tests == [[WAITING, INSTALLATIONS]] * 20
    for command in commands:
        assert importlib.util.find_spec(command[0]), command
    counts = [int(command[2]) for command in commands if "--count" in command]
    assert counts == [3000, 3000, 3000, 3000, 3000, 200, 13, 30, 30, 50, 10_000]


def test_a_part_is_run_alone(long: Long) -> None:
    code, commands, tests = long("--only", "repetitions", "--repetitions", "2", "--tests", "tests/x.py")
    assert (code, commands, tests) == (0, [], [[["tests/x.py"]]] * 2)


@pytest.mark.parametrize("failing", ["benchmarks.kill_schedules", WAITING[0]])
def test_a_failure_fails_the_whole_and_ends_nothing(
    long: Long, failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, commands, tests = long("--repetitions", "1", failing=failing)
    assert code == 1
    assert (len(commands), len(tests)) == (18, 1)
    assert "--- failed in the end" in capsys.readouterr().out


def test_what_was_skipped_is_not_counted_as_passed(long: Long, capsys: pytest.CaptureFixture[str]) -> None:
    assert long("--only", "audit", "--only", "crashes", skipping="supervision.audit")[0] == 0
    said = capsys.readouterr().out
    assert "--- skipped, so not checked: supervision.audit\n" in said
    assert "==== 0 failed, 1 skipped in " in said
