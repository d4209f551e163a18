"""The real data plane that benchmarks start."""

from __future__ import annotations

import os
import subprocess
import sys

from host.environment import ROOT


def test_it_needs_no_django() -> None:
    """Its nodes are those of the local provider, whose records a process with a database writes."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", "import benchmarks.engine"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
