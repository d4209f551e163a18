from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.processes import kill_session
from spark_jobs.agent.statistics import UsageSampler

# Uses CPU in a child that has left the process group, as Spark's Python workers do.
SPIN = """
import os, time
if os.fork() == 0:
    os.setpgid(0, 0)
    end = time.time() + 30
    while time.time() < end:
        pass
time.sleep(30)
"""


@pytest.fixture
def spinning() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True)
    yield process.pid
    kill_session(process.pid)
    process.wait()


def test_cpu_of_the_whole_session_is_measured(spinning: int, tmp_path: Path) -> None:
    sampler = UsageSampler(spinning, tmp_path)
    time.sleep(0.3)
    sampler.sample()
    time.sleep(0.7)
    usage = sampler.sample()
    # One core at most; on a busy machine it gets less, but never nothing.
    assert 5 < usage.cpu_percent < 130
    assert usage.memory_bytes > 1_000_000
    assert usage.disk_free_bytes > 0


def test_first_sample_has_no_interval_to_measure(spinning: int, tmp_path: Path) -> None:
    assert UsageSampler(spinning, tmp_path).sample().cpu_percent == 0


def test_a_session_that_is_gone_uses_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    usage = UsageSampler(process.pid, tmp_path).sample()
    assert (usage.cpu_percent, usage.memory_bytes) == (0, 0)
