"""`python -m supervision.checks [pytest arguments]`: lint, types, architecture, migrations, then the tests.

Every check runs, also after one that failed; pytest comes last, so that its closing lines end the output.
What needs no installation runs first, on two cores; installations run one after the other, by themselves.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from controlplane.config.environment import ROOT

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
    "tests": [[sys.executable, "-m", "pytest"]],
}
PARALLEL = ["-n", "2", "--dist", "loadfile", "tests/unit", "tests/simulation", "tests/browser"]
SERIAL = ["tests/integration"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m supervision.checks", description=__doc__)
    parser.add_argument("--only", choices=tuple(CHECKS), action="append", help="run only this kind")
    options, pytest_arguments = parser.parse_known_args()
    failed: list[str] = []
    for kind in options.only or CHECKS:
        commands = CHECKS[kind]
        if kind == "tests":
            _report("before the tests", failed)
            parts = [pytest_arguments] if pytest_arguments else [PARALLEL, SERIAL]
            commands = [[*command, *part] for command in commands for part in parts]
        for command in commands:
            title = " ".join([Path(command[0]).name, *command[1:]])
            sys.stdout.write(f"--- {title}\n")
            sys.stdout.flush()
            started = time.monotonic()
            code = subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode
            if code != 0:
                failed.append(title)
            if kind != "tests":
                sys.stdout.write(
                    f"    {'ok' if code == 0 else 'FAILED'} in {time.monotonic() - started:.1f} s\n"
                )
                sys.stdout.flush()
    _report("in the end", failed)
    return 1 if failed else 0


def _report(when: str, failed: list[str]) -> None:
    if failed:
        sys.stdout.write(f"--- failed {when}: {', '.join(failed)}\n")
        sys.stdout.flush()


def _environment() -> dict[str, str]:
    """Without the settings of an installation that the shell may hold: tests make their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RESURGE_")}
    return {**kept, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "controlplane.config.settings"}


if __name__ == "__main__":
    sys.exit(main())
