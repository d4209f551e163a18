"""Incremental recovery on real processes: waves, in every policy, under the loss of anything that takes part.

Nodes have so little capacity that a survivor cannot take over everything: queries come back wave by wave.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from harness.stack import Stack
from supervision.rest import RestError
from tests.data import shared_data
from tests.integration.main_job.course import (
    EPOCH,
    SELDOM,
    advanced,
    alive,
    exact,
    healthy,
    incidents,
    lose,
    used,
)

pytestmark = pytest.mark.integration

ADOPTED = re.compile(r"event=.plan adopted. generation=(\d+)")
TIGHT = {
    "RESURGE_REPLACEMENT_DELAY": "uniform:2:14",
    "RESURGE_CPU_CAPS": "0",
    "RESURGE_MAX_UTILISATION": "0.8",
}
ROOM = 0.3
"""Of what all partitions take together: so much of it one node has room for."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    tweets = shared_data("tweets.parquet")
    with Stack(tmp_path_factory.mktemp("tight"), slots=1, variables=TIGHT) as made:
        made.deploy("hashtags", input=tweets, rate=5000, epoch_interval=EPOCH)
        healthy(made)
        yield made


@pytest.fixture(autouse=True)
def ready(stack: Stack) -> None:
    """Each test starts from a healthy system with settled costs and the default policy, without the
    additional nodes of the test before it."""
    policy(stack)
    healthy(stack)
    spare = set(alive(stack)) - set(used(stack))
    lose(stack, *spare)
    healthy(stack)
    stack.wait_for(lambda: measured(stack), "measured costs", timeout=60, pause=SELDOM)
    stack.wait_for(lambda: settled(stack), "costs that fall no more", timeout=180)
    stack.capacities_set(tight(stack))


def policy(stack: Stack, **changes: Any) -> None:
    wanted = {"method": "auto", "rollback": "ancestors", "approval": "automatic", **changes}
    stack.rest.patch("topologies/hashtags/policy/", {**wanted, "reason": "a test"})


def measured(stack: Stack) -> bool:
    """Whether the costs of partitions and of nodes, and the normal latencies of queries, are measured."""
    partitions = stack.rest.listing("topologies/hashtags/partitions/?limit=100")
    queries = stack.rest.listing("topologies/hashtags/queries/?limit=100")
    known = [row["cpu"] > 0 for row in partitions] + [bool(row["baseline_latency"]) for row in queries]
    known += [row["predicted_percent"] is not None for row in stack.nodes("alive").values()]
    return all(known)


def settled(stack: Stack) -> bool:
    """Whether partitions and nodes cost about as much as four epochs before. New executors are slow at first:
    measured then, a query needs so much that only the last node to come gives it room. What nodes take is
    measured every ten seconds. Looked at sooner, new costs of partitions meet old ones of nodes, and
    everything fits on one."""
    before, expected = costs(stack), predicted(stack)
    advanced(stack, 4)
    return costs(stack) > 0.9 * before and predicted(stack) > 0.9 * expected


def predicted(stack: Stack) -> float:
    """CPU percent that all nodes together are expected to take. Raises `LookupError` while that is not known
    of a node, because it has just joined."""
    found = [row["predicted_percent"] for row in stack.nodes("alive").values()]
    if None in found:
        raise LookupError("nothing is predicted yet for a node that has just joined")
    return sum(found)


def tight(stack: Stack) -> int:
    """CPU percent of a node that has room for `ROOM` of all partitions, beside what a node takes anyway. The
    one that takes least of that counts: with the mean, it had room for everything where others had just
    started. Measured, because machines differ."""
    partitions = 100.0 * costs(stack)
    everywhere = [row["predicted_percent"] - row["planned_percent"] for row in stack.nodes("alive").values()]
    return math.ceil((min(everywhere) + ROOM * partitions) / 0.8)


def costs(stack: Stack) -> float:
    """Of all partitions together, in cores."""
    return sum(row["cpu"] for row in stack.rest.listing("topologies/hashtags/partitions/?limit=100"))


def plans(stack: Stack, number: int) -> list[dict[str, Any]]:
    return sorted(stack.rest.listing(f"incidents/{number}/plans/"), key=lambda plan: plan["generation"])


def story(stack: Stack, number: int) -> list[dict[str, Any]]:
    return list(stack.rest.get(f"incidents/{number}/")["entries"])


def joined(stack: Stack, number: int) -> int:
    """How many nodes have come for this incident, and recovery knows it."""
    return sum(" has joined " in entry["text"] for entry in story(stack, number))


def lose_three(stack: Stack) -> int:
    """Kill three of the nodes that carry the topology, or all where it has fewer; returns the number of the
    incident."""
    before = incidents(stack)
    stack.kill_nodes(*used(stack)[:3])
    stack.wait_for(lambda: incidents(stack) == before + 1, "an incident", timeout=30)
    return int(stack.incidents()[-1]["number"])


def applied_once(stack: Stack, generations: list[int]) -> None:
    """The driver's own log names each generation it adopted."""
    adopted = [int(found) for found in ADOPTED.findall(stack.log("driver.hashtags"))]
    assert adopted, "the driver's log names no plan"
    for generation in generations:
        assert adopted.count(generation) <= 1, (generation, adopted)
    assert adopted == sorted(adopted), adopted


def buffered(stack: Stack) -> list[str]:
    return [str(path) for path in stack.home.glob("nodes/*/buffers/*/*/*/*.arrow")]


def test_queries_return_wave_by_wave(stack: Stack) -> None:
    number = lose_three(stack)
    healthy(stack)
    exact(stack)
    waves = plans(stack, number)
    assert [plan["wave"] for plan in waves] == list(range(1, len(waves) + 1))
    assert {plan["method"] for plan in waves} == {"incremental"}
    assert not any(plan["rollback"] for plan in waves)
    # A plan that was discarded, because another node was lost before a driver applied it, restored nothing.
    applied = [plan for plan in waves if plan["applied_at"]]
    assert len(applied) >= 2, waves
    restored = Counter(partition for plan in applied for partition in plan["restore"])
    # Where executors take long to start, what they have not begun is planned again ("spread"); on a machine
    # that is too busy, more is found down ("lost"). A plan parks queries to make room for more of them.
    course = story(stack, number)
    told = [entry["data"] for entry in course]
    down = [data["failed"] for data in told if data.get("fact") in ("lost", "spread")]
    failed = Counter(
        partition for one in down for partition in one.get("hashtags", one).get("partitions", ())
    )
    failed.update(query for data in told if data.get("method") for query in data.get("parked", ()))
    assert restored
    assert restored - failed == Counter(), "restored more often than failed:\n" + "\n".join(
        f"{entry['text']} {entry['data']}" for entry in course
    )
    incident = stack.rest.get(f"incidents/{number}/")
    assert incident["first_query_at"] < incident["all_queries_at"]
    applied_once(stack, [plan["generation"] for plan in waves])
    stack.wait_for(lambda: not buffered(stack), "dropped buffers", timeout=30)


@pytest.mark.long
def test_nothing_is_restored_before_it_is_confirmed_or_while_it_is_paused(stack: Stack) -> None:
    """With a global rollback, and the loss of the driver after the first wave."""
    policy(stack, approval="approve", rollback="global")
    killed = used(stack)[:3]
    number = lose_three(stack)

    def proposed() -> dict[str, Any]:
        return dict(stack.rest.get(f"incidents/{number}/")["proposals"])

    # While it is paused, no node is asked for: all losses come first.
    stack.wait_for(lambda: not set(killed) & set(alive(stack)), "all losses", timeout=30)
    stack.wait_for(proposed, "a proposal", timeout=60)
    assert plans(stack, number) == []
    with pytest.raises(RestError, match="409"):
        stack.rest.post(f"incidents/{number}/approve/", {"reason": "old news", "proposal": "no-such-one"})
    stack.rest.post(f"incidents/{number}/pause/", {"reason": "look first"})
    stack.wait_for(lambda: stack.rest.get(f"incidents/{number}/")["paused"], "a pause", timeout=20)
    for proposal in proposed().values():
        with contextlib.suppress(RestError):
            confirmed = {"reason": "early", "proposal": proposal["proposal"]}
            stack.rest.post(f"incidents/{number}/approve/", confirmed)
    stack.wait_for(
        lambda: joined(stack, number) >= len(killed), "the replacements of all lost nodes", timeout=90
    )
    assert plans(stack, number) == []
    stack.rest.post(f"incidents/{number}/resume/", {"reason": "go on"})
    driver_lost = False
    deadline = time.monotonic() + 200
    while stack.incidents()[-1]["state"] not in ("closed", "aborted"):
        assert time.monotonic() < deadline, stack.incidents()[-1]
        for proposal in proposed().values():
            # A node that has just arrived makes another proposal: then this one is refused.
            with contextlib.suppress(RestError):
                confirmed = {"reason": "as it is", "proposal": proposal["proposal"]}
                stack.rest.post(f"incidents/{number}/approve/", confirmed)
        if not driver_lost and any(plan["applied_at"] for plan in plans(stack, number)):
            stack.kill_driver()
            driver_lost = True
        time.sleep(0.5)
    assert driver_lost
    healthy(stack)
    exact(stack)
    rollbacks = [plan["rollback"] for plan in plans(stack, number)]
    assert rollbacks[0]
    # If another node was lost before a driver applied the first wave, the second one rolls back.
    assert rollbacks == sorted(rollbacks, reverse=True)


@pytest.mark.long
def test_the_coordinator_is_killed_at_every_step(stack: Stack) -> None:
    """Whenever the story has new entries, the recovery worker gets SIGKILL; every third time the detection
    worker too. In between a restored node dies."""
    number = lose_three(stack)
    seen, kills = 0, 0
    last = ""
    deadline = time.monotonic() + 300
    while stack.incidents()[-1]["state"] != "closed":
        assert time.monotonic() < deadline, stack.incidents()[-1]
        entries = len(story(stack, number))
        if entries > seen and kills < 15:
            seen, kills = entries, kills + 1
            stack.kill_at_once("recovery", *(["detection"] if kills % 3 == 1 else []))
        if not last and any(plan["state"] == "applied" for plan in plans(stack, number)):
            last = used(stack)[-1]
            stack.kill_nodes(last)
        time.sleep(0.1)
    assert kills >= 3
    # A node that died at the very end is another incident.
    stack.wait_for(lambda: last not in alive(stack), "the loss of the last node", timeout=30)
    healthy(stack)
    exact(stack)
    waves = plans(stack, number)
    assert [plan["wave"] for plan in waves] == list(range(1, len(waves) + 1)), "a wave was planned twice"
    applied_once(stack, [plan["generation"] for plan in waves])
