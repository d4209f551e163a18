from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.eventually import eventually
from host.processes import TICKS_PER_SECOND, kill_session, session_members
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


# A topology's root whose child uses CPU, ends and is waited for, before the next one does the same.
GENERATIONS = """
import os, time
while True:
    child = os.fork()
    if child == 0:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_cpu_counts_by_topology_also_of_processes_that_have_ended(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", GENERATIONS], start_new_session=True)
    try:
        sampler = UsageSampler(process.pid, tmp_path, roots=lambda: {"t": process.pid})
        sampler.sample()
        eventually(lambda: sampler.sample().cpu_seconds.get("t", 0.0) > 1.0, "a second of CPU")
        counted = sampler.sample().cpu_seconds["t"]
        (leader,) = [one for one in session_members(process.pid) if one.pid == process.pid]
        # Several generations have ended: what their parent says of them is about what was counted.
        reaped = leader.reaped_ticks / TICKS_PER_SECOND
        assert reaped > 0.5
        assert abs(counted - reaped) < 0.5
        assert sampler.sample().own_cpu_seconds == 0.0
    finally:
        kill_session(process.pid)
        process.wait()


def test_the_cpu_of_an_executor_that_has_ended_is_not_counted_as_the_agents(tmp_path: Path) -> None:
    """It is the agent that waits for its executors."""
    process = subprocess.Popen([sys.executable, "-c", GENERATIONS], start_new_session=True)

    def roots() -> dict[str, int]:
        children = [one.pid for one in session_members(process.pid) if one.pid != process.pid]
        return {"t": children[0]} if children else {}

    try:
        sampler = UsageSampler(process.pid, tmp_path, roots=roots)
        sampler.sample()
        ended, reaped = 0, 0

        def several() -> bool:
            nonlocal ended, reaped
            sampler.sample()
            (leader,) = [one for one in session_members(process.pid) if one.pid == process.pid]
            ended += leader.reaped_ticks > reaped
            reaped = leader.reaped_ticks
            return ended > 5

        eventually(several, "executors that have ended")
        usage = sampler.sample()
        assert usage.cpu_seconds["t"] > usage.own_cpu_seconds, "most of it was seen while they ran"
        assert usage.cpu_seconds["t"] + usage.own_cpu_seconds > reaped / TICKS_PER_SECOND - 0.3
    finally:
        kill_session(process.pid)
        process.wait()


def test_what_belongs_to_no_topology_is_the_agents_own(spinning: int, tmp_path: Path) -> None:
    sampler = UsageSampler(spinning, tmp_path, roots=lambda: {"t": 1})
    sampler.sample()
    eventually(lambda: sampler.sample().own_cpu_seconds > 0.2, "CPU of the agent")
    assert sampler.sample().cpu_seconds == {}
