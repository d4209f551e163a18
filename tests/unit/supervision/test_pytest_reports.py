"""Which failures a second run cancels, and the closing lines about them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from supervision.pytest_reports import OPTIONS, Failure, Report, judge, report_read

# Nothing but pytest itself, whose start is most of what these tests cost.
PYTEST = [sys.executable, "-m", "pytest", "-q"]
PLAIN = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
REAL = Failure("tests/integration/test_real.py::test_it", "AssertionError: late")
OTHER = Failure("tests/integration/test_real.py::test_other[redis]", "AssertionError: later")
UNIT = Failure("tests/unit/test_pure.py::test_it", "AssertionError: wrong")


def passes(test: str) -> Report:
    return Report(test, 0, passed=1)


def fails(test: str) -> Report:
    return Report(test, 1, failures=(Failure(test, "again"),))


def test_a_run_without_failures_repeats_nothing() -> None:
    verdict = judge([Report("all", 0, passed=7, skipped=1)], fails)
    assert verdict.failed == ()
    assert verdict.lines(2) == ["==== 7 passed, 1 skipped in 2.00s ===="]


def test_a_test_on_real_processes_that_passes_alone_is_flaky() -> None:
    verdict = judge([Report("all", 1, passed=7, failures=(REAL,))], passes)
    assert verdict.failed == ()
    assert verdict.lines(2) == [
        "flaky: tests/integration/test_real.py::test_it",
        "    AssertionError: late",
        "==== 8 passed, 1 flaky in 2.00s ====",
    ]


def test_one_that_fails_again_fails_the_run_and_ends_the_repetitions() -> None:
    asked: list[str] = []

    def again(test: str) -> Report:
        asked.append(test)
        return fails(test)

    verdict = judge([Report("all", 1, passed=7, failures=(REAL, OTHER))], again)
    assert asked == [REAL.test]
    assert verdict.failed == ("all",)
    assert verdict.lines(2) == ["==== 2 failed, 7 passed in 2.00s ===="]


def test_other_tests_get_no_second_chance() -> None:
    verdict = judge([Report("all", 1, failures=(UNIT, REAL))], passes)
    assert verdict.failed == ("all",)
    assert verdict.failures == (UNIT,)
    assert verdict.flaky == (REAL,)


def test_a_second_run_that_is_skipped_takes_nothing_back() -> None:
    verdict = judge([Report("all", 1, failures=(REAL,))], lambda test: Report(test, 0, skipped=1))
    assert verdict.failed == ("all",)


def test_a_process_that_ended_otherwise_has_failed_whatever_it_reported() -> None:
    for code, failures in ((2, (REAL,)), (5, ()), (-9, ()), (1, ())):
        assert judge([Report("all", code, failures=failures)], passes).failed == ("all",)


def test_a_report_names_what_can_be_run_again(tmp_path: Path) -> None:
    module = tmp_path / "tests" / "integration" / "test_made.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken():\n    yield\n    raise OSError('in the end')\n"
        "@pytest.mark.parametrize('name', ['a b', 'c/d'])\n"
        "def test_named(name):\n    print('said', name)\n    assert name == 'a b'\n"
        "class TestMore:\n"
        "    def test_inside(self):\n        assert 0\n"
        "    def test_ends_badly(self, broken):\n        pass\n"
        "def test_left_out():\n    pytest.skip('no data')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    path = tmp_path / "report.xml"
    command = [*PYTEST, f"--junit-xml={path}", *OPTIONS]
    code = subprocess.run(
        [*command, "tests"], cwd=tmp_path, env=PLAIN, check=False, stdout=subprocess.DEVNULL
    ).returncode
    report = report_read(path, "all", code)
    assert (report.code, report.passed, report.skipped) == (1, 1, 1)
    assert [failure.test for failure in report.failures] == [
        "tests/integration/test_made.py::test_named[c/d]",
        "tests/integration/test_made.py::TestMore::test_inside",
        "tests/integration/test_made.py::TestMore::test_ends_badly",
    ]
    assert "said c/d" in report.failures[0].log
    assert "OSError: in the end" in report.failures[2].log
    for failure in report.failures:
        again = subprocess.run(
            [*command, failure.test], cwd=tmp_path, env=PLAIN, check=False, capture_output=True
        )
        assert again.returncode == 1, again.stdout


def test_a_file_that_does_not_load_cannot_be_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text("import nothing_like_it\n")
    path = tmp_path / "report.xml"
    command = [*PYTEST, f"--junit-xml={path}", *OPTIONS]
    code = subprocess.run(
        [*command, "."], cwd=tmp_path, env=PLAIN, check=False, capture_output=True
    ).returncode
    report = report_read(path, "all", code)
    assert [failure.on_real_processes for failure in report.failures] == [False]
    assert judge([report], passes).failed == ("all",)


def test_a_process_without_a_report_has_failed(tmp_path: Path) -> None:
    assert judge([report_read(tmp_path / "none.xml", "all", 137)], passes).failed == ("all",)
