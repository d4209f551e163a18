"""`python -m supervision.checks [pytest arguments]`: lint, types, architecture, migrations, and the tests.

Every check runs, also after one that failed. Tests of installations mostly wait, and so do those of single
processes and of pages: each of the two is one process. On what they leave of two cores the types are checked
and the tests that compute run. What ran beside is shown when it ended. A failed test on real processes is run
once more at the end, alone (`supervision.pytest_reports`). Temporary files are in memory, if there is room.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from host.environment import ROOT
from supervision.pytest_reports import OPTIONS, Report, judge, report_read

BIN = Path(sys.executable).parent
CHECKS: dict[str, list[list[str]]] = {
    "lint": [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "lint-imports")],
        [str(BIN / "vulture")],
    ],
    "types": [[str(BIN / "mypy")]],
    "django": [
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
    ],
}
KINDS = (*CHECKS, "tests")
# Exit code of a check that could not be made; automake uses it as well.
SKIPPED = 77
PYTEST = [sys.executable, "-m", "pytest"]
# What waits is about times, and goes first when both want a core.
YIELDING = ("nice", "-n", "15")
# The long ones first, so that both workers end together (see also tests/conftest.py).
COMPUTING = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "tests/simulation", "tests/unit"]
PAGES = ["tests/browser"]
WAITING = ["tests/integration/control_plane"]
INSTALLATIONS = ["tests/integration", *(f"--ignore={directory}" for directory in WAITING)]
# A file system in memory, and the bytes that have to be free there.
MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it has a name of its own
ROOM = 4 << 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m supervision.checks", description=__doc__)
    parser.add_argument("--only", choices=KINDS, action="append", help="run only this kind")
    options, pytest_arguments = parser.parse_known_args()
    kinds = options.only or KINDS
    later = CHECKS["types"] if {"types", "tests"} <= set(kinds) else []
    failed: list[str] = []
    for command in [one for kind in kinds for one in CHECKS.get(kind, []) if one not in later]:
        _check(command, failed)
    if "tests" in kinds:
        report("before the tests", failed)
        failed += run_tests(pytest_arguments, later)
    return 1 if failed else 0


def run_tests(pytest_arguments: list[str], beside: Sequence[list[str]] = ()) -> list[str]:
    """All tests, or what the arguments for pytest choose, and checks beside them; returns the commands that
    failed for good."""
    if pytest_arguments:
        return run_together([pytest_arguments], beside)
    return run_together([[*WAITING, *PAGES], INSTALLATIONS, COMPUTING], beside, before=YIELDING)


def run_together(
    groups: Sequence[list[str]], beside: Sequence[list[str]] = (), *, before: Sequence[str] = ()
) -> list[str]:
    """Groups of tests at the same time, each in a pytest process of its own, and checks beside them; returns
    the commands that failed for good. before: what the command of the last group begins with."""
    *others, last = groups
    started = time.monotonic()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="resurge-tests-", dir=memory_directory()) as name:
        runs = PytestRuns(Path(name))
        with ExitStack() as stack:
            for command in beside:
                stack.enter_context(_check_beside(command, failed))
            for group in others:
                stack.enter_context(runs.beside(group))
            runs.run(last, before=before)
        verdict = judge(runs.reports, runs.again)
    failed += verdict.failed
    report("in the end", failed)
    for line in verdict.lines(time.monotonic() - started):
        say(line)
    return failed


def memory_directory() -> Path | None:
    """Where files cost no time of a disk; None where there is no such place, or too little room for tests, or
    where programs that a test writes could not be started."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    usable = os.access(MEMORY, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    return MEMORY if usable and found.f_bavail * found.f_frsize >= ROOM else None


class PytestRuns:
    """Runs pytest with its temporary files in `directory`, and keeps what each run reported."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._variables = {"TMPDIR": str(directory)}
        self._started = 0
        self.reports: list[Report] = []

    def run(self, arguments: list[str], *, before: Sequence[str] = ()) -> None:
        command, path = self._command(arguments, before)
        code = command_run(command, self._variables)
        self.reports.append(report_read(path, _title([*PYTEST, *arguments]), code))

    @contextmanager
    def beside(self, arguments: list[str]) -> Iterator[None]:
        """Run pytest while the block runs, and show what it said when both have ended."""
        command, path = self._command(arguments)
        title = _title([*PYTEST, *arguments])

        def ended(code: int) -> None:
            self.reports.append(report_read(path, title, code))

        with _beside(command, title, ended, self._variables):
            yield

    def again(self, test: str) -> Report:
        """Once more, with nothing beside it."""
        say(f"--- failed, and run once more, alone: {test}")
        command, path = self._command([test])
        return report_read(path, test, command_run(command, self._variables))

    def _command(self, arguments: list[str], before: Sequence[str] = ()) -> tuple[list[str], Path]:
        self._started += 1
        path = self._directory / f"{self._started}.xml"
        return [*before, *PYTEST, f"--junit-xml={path}", *OPTIONS, *arguments], path


@contextmanager
def _beside(
    command: list[str], title: str, ended: Callable[[int], None], variables: Mapping[str, str] = {}
) -> Iterator[None]:
    """Run a command while the block runs; then show what it said, and call `ended` with its exit code."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**_environment(), **variables},
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        try:
            yield
        finally:
            code = process.wait()
            said.seek(0)
            say(f"--- beside that: {title}")
            say(said.read().decode(errors="replace").rstrip())
            ended(code)


@contextmanager
def _check_beside(command: list[str], failed: list[str]) -> Iterator[None]:
    def ended(code: int) -> None:
        if code != 0:
            failed.append(_title(command))
        say(f"    {'ok' if code == 0 else 'FAILED'}")

    with _beside([*YIELDING, *command], _title(command), ended):
        yield


def _check(command: list[str], failed: list[str]) -> None:
    started = time.monotonic()
    code = command_run(command)
    if code != 0:
        failed.append(_title(command))
    say(f"    {'ok' if code == 0 else 'FAILED'} in {time.monotonic() - started:.1f} s")


def command_run(command: list[str], variables: Mapping[str, str] = {}) -> int:
    say(f"--- {_title(command)}")
    return subprocess.run(command, cwd=ROOT, env={**_environment(), **variables}, check=False).returncode


def _title(command: list[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(when: str, failed: list[str]) -> None:
    if failed:
        say(f"--- failed {when}: {', '.join(failed)}")


def _environment() -> dict[str, str]:
    """The environment without RESURGE_* settings of the shell, because tests make their own; only those
    of the tests stay. Python may keep what it compiled: tests start hundreds of processes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("RESURGE_TEST_") or not name.startswith(("RESURGE_", "PYTHONDONTWRITEBYTECODE"))
    }
    return {**kept, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "controlplane.config.settings"}


if __name__ == "__main__":
    sys.exit(main())
