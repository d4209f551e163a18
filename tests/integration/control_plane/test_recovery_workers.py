"""Detection and recovery with real ZooKeeper, Redis and Celery workers; nodes and driver are small processes.

The tests share one installation, because starting it takes longer than most of them; each begins by
waiting until nothing is the matter.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.control_plane.stack import SESSION_TIMEOUT, Stack

pytestmark = pytest.mark.integration

ENDED = ("closed", "aborted")
SPEC = {
    "name": "demo",
    "operators": [
        {"name": "Source", "kind": "source", "parallelism": 4, "params": {"reader": "file", "rate": 10}},
        {
            "name": "Words", "kind": "flat_map_regex", "parallelism": 4,
            "inputs": [{"from": "Source", "partitioning": "one_to_one"}],
            "params": {"pattern": "#(\\w+)", "field": "text", "group": 1},
        },
        {
            "name": "Count", "kind": "sliding_window", "output": True,
            "inputs": [{"from": "Words", "partitioning": "full", "key": "key"}],
            "params": {"size_s": 10, "slide_s": 5},
        },
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home: Path = tmp_path_factory.mktemp("recovery")
    stack = Stack(home)
    try:
        stack.servers()
        for name in ("detection", "recovery", "beat", *(f"node-{i}" for i in range(1, 5))):
            stack.start(name)
        stack.wait("four nodes registered", lambda: len(alive(stack)) == 4, 60)
        stack.deploy(SPEC)
        stack.wait("the first plan is applied", lambda: plan_states(stack)[:1] == ["applied"], 60)
        yield stack
    finally:
        stack.stop_all()


@pytest.fixture
def stack(installation: Stack) -> Stack:
    """The installation with all workers running, at least four nodes and no incident."""
    for name in ("zookeeper", "redis", "detection", "recovery", "beat", "driver-demo"):
        if name not in installation.processes:
            installation.start(name)
    finish(installation)
    while len(alive(installation)) < 4:
        number = 1 + max(int(name.removeprefix("node-")) for name in installation.node_states())
        installation.start(f"node-{number}")
        installation.wait(f"node-{number} alive", lambda: f"node-{number}" in alive(installation))  # noqa: B023
    return installation


METHOD = """
import django; django.setup()
from controlplane.topologies.models import Topology
Topology.objects.update(method={method!r})
"""


def alive(stack: Stack) -> list[str]:
    return sorted(name for name, state in stack.node_states().items() if state == "alive")


def hosting(stack: Stack) -> list[str]:
    """Nodes that the newest plan uses, by name."""
    return sorted(set(json.loads(stack.plans("demo")[-1]["assignment"]).values()))


def plan_states(stack: Stack) -> list[str]:
    return [plan["state"] for plan in stack.plans("demo")]


def finish(stack: Stack, limit: float = 60.0) -> None:
    """Start replacements when they are due, until the incident has ended."""

    def over() -> bool:
        stack.launch_due()
        return all(incident["state"] in ENDED for incident in stack.incidents())

    stack.wait("every incident ended", over, limit)


def healthy(stack: Stack) -> None:
    """The newest plan is verified, on living nodes, and nothing was applied twice."""
    newest = stack.plans("demo")[-1]
    assert newest["state"] == "verified"
    assert set(hosting(stack)) <= set(alive(stack))
    applied = stack.applied("demo")
    assert applied == sorted(set(applied)), f"a generation was applied twice or out of order: {applied}"


def test_node_that_lost_only_its_session_is_taken_back(stack: Stack) -> None:
    """This test is the first. Later there are spare nodes, and a plan would move the partitions at once; so
    would any method but blocking."""
    stack.python(METHOD.format(method="blocking"))
    before = len(stack.incidents())
    generation = stack.plans("demo")[-1]["generation"]
    name = hosting(stack)[0]
    stack.kill_signal(name, signal.SIGSTOP)
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    stack.kill_signal(name, signal.SIGCONT)
    stack.wait(f"{name} alive again", lambda: name in alive(stack), 15)
    stack.wait("the incident closed", lambda: stack.incidents()[-1]["state"] == "closed", 15)
    assert stack.plans("demo")[-1]["generation"] == generation, "nothing had to be moved"
    assert "No plan had moved these partitions yet" in "\n".join(stack.story())
    stack.python(METHOD.format(method="auto"))


def test_killed_node_is_recorded_in_time_and_recovered(stack: Stack) -> None:
    before = len(stack.incidents())
    victim = hosting(stack)[0]
    stack.kill(victim)
    took = stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    assert took <= SESSION_TIMEOUT + 1.0, f"recorded after {took:.2f} s"
    finish(stack)
    healthy(stack)
    assert victim not in hosting(stack)
    story = "\n".join(stack.story())
    for words in (
        f"Lost {victim}",
        "heartbeat has been silent",
        "Asked the provider for 1",
        "newest that every partition completed",
        "recovered and verified",
    ):
        assert words in story
    stack.wait("the query is back", lambda: stack.incidents()[-1]["all_queries_at"], 20)
    assert "All failed queries are available again" in "\n".join(stack.story())


def test_three_of_four_at_once_are_one_incident(stack: Stack) -> None:
    before = len(stack.incidents())
    for victim in alive(stack)[:3]:
        stack.kill(victim)
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    finish(stack)
    healthy(stack)
    assert len(stack.incidents()) == before + 1


def test_zookeeper_restart_opens_no_incident(stack: Stack) -> None:
    before = len(stack.incidents())
    stack.kill("zookeeper")
    time.sleep(SESSION_TIMEOUT + 2)
    stack.start("zookeeper")
    time.sleep(8)
    assert len(stack.incidents()) == before
    stack.wait("all nodes are trusted again", lambda: len(alive(stack)) >= 4, 20)
    # The mass-loss brake ends: a node that dies afterwards is detected, at the latest after the grace period.
    victim = hosting(stack)[0]
    stack.kill(victim)
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 15)
    finish(stack)
    healthy(stack)


def test_zookeeper_that_loses_its_data_opens_no_incident(stack: Stack) -> None:
    """Then every process needs a new session, and all values must be written again."""
    before, generation = len(stack.incidents()), stack.plans("demo")[-1]["generation"]
    applied = stack.applied("demo")
    stack.kill("zookeeper")
    shutil.rmtree(stack.home / "zookeeper" / "data")
    stack.start("zookeeper")
    time.sleep(2 * SESSION_TIMEOUT)
    stack.wait("all nodes are trusted again", lambda: len(alive(stack)) >= 4, 30)
    time.sleep(2 * SESSION_TIMEOUT)
    assert len(stack.incidents()) == before
    assert stack.plans("demo")[-1]["generation"] == generation
    assert stack.applied("demo") == applied
    stack.kill(hosting(stack)[0])
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 15)
    finish(stack)
    healthy(stack)


def test_redis_restart_opens_no_incident_and_recovery_goes_on(stack: Stack) -> None:
    before = len(stack.incidents())
    stack.kill("redis")
    time.sleep(1)
    stack.start("redis")
    time.sleep(SESSION_TIMEOUT + 2)
    assert len(stack.incidents()) == before
    victim = hosting(stack)[0]
    stack.kill(victim)
    took = stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    assert took <= SESSION_TIMEOUT + 1.0
    stack.kill("redis")  # and once more in the middle of it
    stack.start("redis")
    finish(stack)
    healthy(stack)


@pytest.mark.parametrize("worker", ["detection", "recovery", "beat"])
def test_worker_killed_while_recovering(stack: Stack, worker: str) -> None:
    before = len(stack.incidents())
    stack.kill(hosting(stack)[0])
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    stack.kill(worker)
    stack.launch_due()
    time.sleep(1)
    stack.start(worker)
    finish(stack, 90)
    healthy(stack)
    assert len(stack.incidents()) == before + 1


def test_recovery_worker_killed_again_and_again(stack: Stack) -> None:
    before = len(stack.incidents())
    stack.kill(hosting(stack)[0])
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    stack.launch_due()
    for pause in (0.0, 1.5, 3.0, 4.5):
        stack.kill("recovery")
        stack.start("recovery")
        time.sleep(pause)
        stack.launch_due()
    finish(stack, 90)
    healthy(stack)


def test_failure_during_recovery_grows_the_incident(stack: Stack) -> None:
    before = len(stack.incidents())
    first, second = hosting(stack)[:2]
    generation = stack.plans("demo")[-1]["generation"]
    stack.kill_signal("driver-demo", signal.SIGSTOP)  # so that the first plan cannot be applied
    stack.kill(first)
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    stack.launch_due()
    stack.wait("a plan in force", lambda: plan_states(stack)[-1] == "published", 20)
    stack.kill(second)
    told = f"Lost {second} while the recovery was under way"
    stack.wait("the second loss", lambda: told in "\n".join(stack.story()), 15)
    stack.kill_signal("driver-demo", signal.SIGCONT)
    finish(stack)
    healthy(stack)
    assert len(stack.incidents()) == before + 1
    assert plan_states(stack)[-2:] == ["superseded", "verified"]
    assert stack.plans("demo")[-1]["generation"] == generation + 2


def test_new_process_under_an_old_name_is_an_empty_node(stack: Stack) -> None:
    before = len(stack.incidents())
    name = hosting(stack)[0]
    stack.kill(name)
    stack.start(name)  # registers while the old registration is still there
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 15)
    finish(stack)
    healthy(stack)


def test_every_node_lost(stack: Stack) -> None:
    before = len(stack.incidents())
    for victim in alive(stack):
        stack.kill(victim)
    stack.wait("an incident", lambda: len(stack.incidents()) > before, 10)
    finish(stack)
    healthy(stack)
