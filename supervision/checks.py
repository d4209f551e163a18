"""`python -m supervision.checks [pytest arguments]`: lint, types, architecture, migrations, then the tests.

Every check runs, also after one that failed; pytest comes last, so that its closing lines end the output.
Tests that compute run first, on two cores, and beside them those of single processes, which mostly wait.
Installations run one after the other, by themselves.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from host.environment import ROOT

BIN = Path(sys.executable).parent
CHECKS: dict[str, list[list[str]]] = {
    "lint": [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "lint-imports")],
    ],
    "types": [[str(BIN / "mypy")]],
    "django": [
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
    ],
}
KINDS = (*CHECKS, "tests")
PYTEST = [sys.executable, "-m", "pytest"]
# The long ones first and in this order, so that both workers end together.
COMPUTING = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
COMPUTING += ["tests/simulation", "tests/browser", "tests/unit"]
WAITING = ["tests/integration/control_plane"]
INSTALLATIONS = ["tests/integration", *(f"--ignore={directory}" for directory in WAITING)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m supervision.checks", description=__doc__)
    parser.add_argument("--only", choices=KINDS, action="append", help="run only this kind")
    options, pytest_arguments = parser.parse_known_args()
    failed: list[str] = []
    for kind in options.only or KINDS:
        if kind != "tests":
            for command in CHECKS[kind]:
                _check(command, failed)
            continue
        _report("before the tests", failed)
        if pytest_arguments:
            _run([*PYTEST, *pytest_arguments], failed)
        else:
            with _beside([*PYTEST, *WAITING], failed):
                # What waits is about times, and goes first when both want a core.
                _run(["nice", "-n", "5", *PYTEST, *COMPUTING], failed)
            _run([*PYTEST, *INSTALLATIONS], failed)
    _report("in the end", failed)
    return 1 if failed else 0


def _check(command: list[str], failed: list[str]) -> None:
    started = time.monotonic()
    succeeded = _run(command, failed)
    _say(f"    {'ok' if succeeded else 'FAILED'} in {time.monotonic() - started:.1f} s")


def _run(command: list[str], failed: list[str]) -> bool:
    _say(f"--- {_title(command)}")
    code = subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode
    if code != 0:
        failed.append(_title(command))
    return code == 0


@contextmanager
def _beside(command: list[str], failed: list[str]) -> Iterator[None]:
    """Run the command while the block runs, and show what it said when both have ended."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            yield
        finally:
            code = process.wait()
            said.seek(0)
            _say(f"--- beside that: {_title(command)}")
            _say(said.read().decode(errors="replace").rstrip())
            if code != 0:
                failed.append(_title(command))


def _title(command: list[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _report(when: str, failed: list[str]) -> None:
    if failed:
        _say(f"--- failed {when}: {', '.join(failed)}")


def _environment() -> dict[str, str]:
    """Without the settings of an installation that the shell may hold: tests make their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RESURGE_")}
    return {**kept, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "controlplane.config.settings"}


if __name__ == "__main__":
    sys.exit(main())
