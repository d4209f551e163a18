"""The lock on an epoch log: held by one process, and freed with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_jobs.driver.only_driver import AnotherDriverError, only_driver

HOLDER = """
import sys, time
from pathlib import Path
from spark_jobs.driver.only_driver import only_driver
with only_driver(Path(sys.argv[1]), "counts"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock."""
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_second_driver_ends_at_once_and_names_the_first(tmp_path: Path) -> None:
    with (
        holder(tmp_path) as first,
        pytest.raises(AnotherDriverError, match=rf"'counts' is running \(process {first.pid}\)"),
        only_driver(tmp_path, "counts"),
    ):
        pytest.fail("both have the lock")


def test_the_lock_is_free_when_its_process_was_killed(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.kill()
        first.wait()
        with only_driver(tmp_path, "counts"):
            pass


def test_what_a_driver_starts_does_not_keep_the_lock(tmp_path: Path) -> None:
    with only_driver(tmp_path, "counts"):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
    try:
        with only_driver(tmp_path, "counts"):
            pass
    finally:
        child.kill()
        child.communicate()


def test_other_topologies_have_locks_of_their_own(tmp_path: Path) -> None:
    with only_driver(tmp_path / "a", "a"), only_driver(tmp_path / "b", "b"):
        pass
