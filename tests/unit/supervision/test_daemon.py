"""supervisord where nothing more can be written to any log."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.eventually import eventually
from host.environment import ROOT

FULL = 4_000
"""Bytes that a file may have. It is as on a full disk: what would make it longer fails."""
LINES = 500
"""Of a thousand bytes: more than a pipe holds."""
TALKS = """
import itertools, sys, time
for line in itertools.count(1):
    print("x" * 1000, flush=True)
    with open(sys.argv[1], "r+b") as told:
        told.write(b"%d" % line)
    time.sleep(0.001)
"""


@contextmanager
def daemon(directory: Path, *, log_bytes: int) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program that writes lines, and tells how many it has written."""
    (directory / "lines").write_bytes(b"0")
    (directory / "talks.py").write_text(TALKS, encoding="utf-8")
    configuration = directory / "supervisord.conf"
    configuration.write_text(
        f"[supervisord]\nlogfile={directory}/supervisord.log\npidfile={directory}/supervisord.pid\n"
        f"silent=true\n[program:talks]\ncommand={sys.executable} {directory}/talks.py {directory}/lines\n"
        f"redirect_stderr=true\nstdout_logfile={directory}/talks.log\n"
        f"stdout_logfile_maxbytes={log_bytes}\nstdout_logfile_backups=2\n",
        encoding="utf-8",
    )
    with open(directory / "supervisord.out", "wb") as output:
        output.write(b"-" * FULL)
        output.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "supervision.daemon", "--nodaemon", "-c", str(configuration)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL)),
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("next_one", [True, False], ids=["one log", "no next log"])
def test_what_it_runs_goes_on_where_no_log_can_be_written(tmp_path: Path, *, next_one: bool) -> None:
    if not next_one:
        (tmp_path / "talks.log.1" / "in the way").mkdir(parents=True)
    with daemon(tmp_path, log_bytes=2 * FULL if next_one else FULL // 2) as process:

        def written() -> bool:
            return process.poll() is not None or int((tmp_path / "lines").read_bytes()) > LINES

        eventually(written, timeout=60)
        assert process.poll() is None
    assert b"uncaptured" not in (tmp_path / "supervisord.log").read_bytes()
