"""The shared class archive in benchmarks. `make up` makes it, so nodes of an installation have one.

Without it a node takes two CPU seconds more until its executor can work: 10 s with a fifth of a core.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from host.environment import ROOT
from host.java import class_archive_options


def class_archive_ensure(note: Callable[[str], None]) -> bool:
    """Make it where there is none; whether there is one then. note: what is said meanwhile."""
    if class_archive_options():
        return True
    note("making the class archive, as make up does (half a minute)")
    subprocess.run([sys.executable, "-m", "supervision.class_archive_build"], cwd=ROOT, check=False)
    made = bool(class_archive_options())
    if not made:
        note("there is no class archive: nodes take more CPU to start than those of an installation")
    return made
