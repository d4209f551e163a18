"""The main job on real processes and real tweets: whatever is killed, every query's output is the oracle's.

One installation lives through all of it, one failure after the other, as installations do. After each the
outputs so far are recomputed from the input and compared, row by row.
"""

from __future__ import annotations

import os
import re
import time
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from harness.freezing import freeze
from harness.roles import ROLES, command_line, role_of
from harness.stack import Stack
from host.process_secrets import EXECUTOR, NEEDED, SECRETS
from tests.integration import local_attacker
from tests.integration.main_job.course import (
    FROZEN,
    QUERIES,
    advanced,
    alive,
    exact,
    healthy,
    incidents,
    lose,
    opened,
    operation_ended,
    used,
)
from tests.integration.surface import processes, secrets_of

pytestmark = pytest.mark.integration

SPOKEN = {
    "web": {"http"},
    "redis": {"redis"},
    "zookeeper": {"zookeeper"},
    "spark-master": {"http", "spark"},
    "executor": {"spark"},
    "driver-jvm": {"spark", "py4j"},
    "node": {"nothing"},
}
"""Protocols of the ports of each kind of process; the others listen nowhere."""
HANDED_OVER = re.compile(r"event=.state handed over. partitions=(\d+)")
SPARK_NOTICES = 60.0
"""Seconds after which Spark gives up an executor that does not answer."""


def test_a_clean_run(stack: Stack) -> None:
    exact(stack)
    assert incidents(stack) == 0


def test_figures_are_kept_and_no_alert_fires(stack: Stack) -> None:
    """By the tasks that beat sends, of what really runs."""
    figures = {
        "topologies/hashtags/": "input_rate",
        "topologies/hashtags/queries/O4[0]/": "latency",
        "topologies/hashtags/operators/Parser/": "rows_in_rate",
        f"nodes/{used(stack)[0]}/": "cpu_percent",
    }

    def highest(path: str) -> float:
        line = stack.rest.get(f"{path}measurements/")["figures"][figures[path]]
        return max((value for value in line["high"] if value is not None), default=0.0)

    for path in figures:
        stack.wait_for(partial(highest, path), f"figures of {path}", timeout=60)

    def firing() -> set[str]:
        return {one["rule"] for one in stack.rest.listing("alerts/?state=firing&limit=100")}

    # Only what must fire does: every query has a latency.
    rule = {"name": "any-latency", "metric": "query_latency", "comparison": "above", "threshold": 0.0,
            "held": 0.0, "calm": 0.0, "reason": "a test"}  # fmt: skip
    stack.rest.post("alert-rules/", rule)
    stack.wait_for(firing, "an alert", timeout=30)
    assert firing() == {"any-latency"}
    stack.rest.call("DELETE", "alert-rules/any-latency/?reason=a+test")
    stack.wait_for(lambda: not firing(), "the end of the alert", timeout=30)


def test_the_outputs_are_verified_on_request(stack: Stack) -> None:
    """By a process that the launcher starts."""
    asked = stack.rest.post("topologies/hashtags/verify/", {"reason": "a test"})
    ended = operation_ended(stack, asked["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", "")
    assert (ended["result"]["queries"], ended["result"]["exact"]) == (QUERIES, QUERIES)
    assert ended["result"]["rows"] > 0 < ended["result"]["epoch"]


def test_another_user_of_the_host_gets_nothing(stack: Stack) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    outcome = local_attacker.attack(stack)
    assert outcome.found == [], local_attacker.told(outcome.found)
    assert outcome.unreached == {}, local_attacker.told(outcome.unreached)
    assert outcome.spoken == SPOKEN
    # Two attempts on each file; sockets of the supervisor and of each executor.
    assert outcome.reached["file"] > 100
    assert outcome.reached["socket"] >= 1 + len(alive(stack))


def test_each_process_has_the_secrets_it_needs(stack: Stack) -> None:
    """And no command line, which every user of the host can read, has one."""
    seen = set()
    given = SECRETS & (stack.installation.variables.keys() | {EXECUTOR})
    values = [stack.installation.variables[name] for name in given - {EXECUTOR}]
    for pid in processes(stack):
        command = command_line(pid)
        role = role_of(pid)
        assert role or "supervisord" in command, command
        assert not [value for value in values if value in command], command
        if role:
            seen.add(role)
            assert secrets_of(pid, SECRETS) == NEEDED[role] & given, role
    # Only a topology with a bounded guarantee has a keeper (`standbys/test_bounded.py`).
    assert seen == set(ROLES.values()) - {"keeper"}


def test_one_node_dies(stack: Stack) -> None:
    before = incidents(stack)
    at = stack.kill_nodes(alive(stack)[0])
    stack.wait_for(lambda: incidents(stack) == before + 1, "an incident", timeout=30)
    opened = stack.incidents()[-1]["opened_at"]
    timeout = stack.installation.settings.session_timeout
    assert seconds(opened) - at <= timeout + 1.0
    healthy(stack)
    exact(stack)
    (evidence,) = evidence_of(stack)
    assert "connection was closed and refused, and the driver of hashtags lost its executor" in evidence


def evidence_of(stack: Stack) -> list[str]:
    """Why nodes were given up, in the story of the newest incident."""
    entries = stack.rest.get(f"incidents/{stack.incidents()[-1]['number']}/")["entries"]
    return [entry["text"] for entry in entries if entry["kind"] == "evidence"]


def test_three_of_four_nodes_die_at_once(stack: Stack) -> None:
    before = incidents(stack)
    lost = alive(stack)[:3]
    stack.kill_nodes(*lost)
    stack.wait_for(lambda: incidents(stack) == before + 1, "an incident", timeout=30)
    healthy(stack)
    assert incidents(stack) == before + 1
    assert sorted(stack.incidents()[-1]["failed_nodes"]) == lost
    exact(stack)


@pytest.mark.long
def test_two_nodes_freeze_and_come_back(stack: Stack) -> None:
    """Spark waits for their executors for a minute; recovery does not. When they are back, they get work."""
    before = incidents(stack)
    lost = used(stack)[:2]
    frozen_at = time.monotonic()
    go_on = stack.freeze_nodes(*lost)
    try:
        stack.wait_for(lambda: incidents(stack) == before + 1, "an incident", timeout=30)
        healthy(stack)
        took = time.monotonic() - frozen_at
        exact(stack)
    finally:
        go_on()
    assert took < SPARK_NOTICES, "recovery waited until Spark missed the nodes"
    assert not [text for text in evidence_of(stack) if "refused" in text], "a frozen machine closes nothing"
    stack.wait_for(lambda: set(lost) <= set(alive(stack)), "the nodes to be back", timeout=60)
    advanced(stack, 5)
    exact(stack)
    stack.kill_nodes(*[name for name in used(stack) if name not in lost][:2])
    stack.wait_for(lambda: incidents(stack) == before + 2, "an incident", timeout=30)
    healthy(stack)
    assert set(lost) & set(used(stack))
    exact(stack)


def test_two_nodes_die_one_after_the_other(stack: Stack) -> None:
    """The second failure happens while the first is being replayed."""
    first = used(stack)[0]
    stack.kill_nodes(first)
    stack.wait_for(
        lambda: stack.incidents()[-1]["state"] in ("restoring", "replaying", "verifying"),
        "a recovery under way",
        timeout=120,
        pause=0.05,
    )
    others = stack.wait_for(lambda: [name for name in used(stack) if name != first], "a plan without it")
    lose(stack, others[0])
    healthy(stack)
    exact(stack)


def test_a_node_dies_in_the_middle_of_a_checkpoint(stack: Stack) -> None:
    snapshots = stack.home / "nodes"
    stack.wait_for(
        lambda: any(snapshots.glob("*/snapshots/hashtags/*/*.json")),
        "a checkpoint under way",
        timeout=60,
        pause=0.002,
    )
    lose(stack, used(stack)[-1])
    healthy(stack)
    exact(stack)


def recovering_from(stack: Stack, node: str) -> bool:
    return node in stack.nodes("lost") and bool(opened(stack))


def test_the_driver_and_an_executor_freeze_during_a_recovery(stack: Stack) -> None:
    """Longer than ZooKeeper's sessions last. `benchmarks.freezes` does so with every kind of process."""
    healthy(stack)
    lost, survivor = used(stack)[:2]
    stack.kill_nodes(lost)
    stack.wait_for(lambda: recovering_from(stack, lost), "a recovery under way", timeout=30, pause=0.05)
    frozen = freeze([*stack.processes_of("driver"), *stack.processes_of("executor", survivor)])
    try:
        assert frozen.stopped == 2
        time.sleep(FROZEN)
        assert frozen.stopped + frozen.ended == 2
    finally:
        frozen.go_on()
    healthy(stack)
    exact(stack)


def test_the_driver_dies(stack: Stack) -> None:
    before = incidents(stack)
    stack.kill_driver()
    advanced(stack, 3)
    healthy(stack)
    exact(stack)
    assert incidents(stack) == before


@pytest.mark.parametrize("process", ["detection", "recovery", "beat", "launcher", "web"])
def test_a_process_of_the_control_plane_dies(stack: Stack, process: str) -> None:
    before = incidents(stack)
    stack.kill(process)
    advanced(stack, 3)
    healthy(stack)
    assert incidents(stack) == before


@pytest.mark.parametrize("process", ["zookeeper", "redis"])
def test_a_server_restarts(stack: Stack, process: str) -> None:
    """There is no incident, and no row is lost."""
    before = incidents(stack)
    stack.restart(process, pause=2.0)
    advanced(stack, 4)
    healthy(stack)
    assert incidents(stack) == before
    exact(stack)


def test_the_workers_die_while_they_recover(stack: Stack) -> None:
    """The workers die one after the other; in `test_incremental` they die at every step."""
    before = incidents(stack)
    stack.kill_nodes(used(stack)[0])
    stack.wait_for(lambda: incidents(stack) == before + 1, "an incident", timeout=30, pause=0.05)
    for process in ("recovery", "detection"):
        stack.kill(process)
    healthy(stack)
    assert incidents(stack) == before + 1
    exact(stack)


def test_an_operator_goes_back_to_an_older_checkpoint(stack: Stack) -> None:
    """Restore a checkpoint that is not the newest: later epochs are undone and computed again, with the same
    rows. A driver that is killed meanwhile also knows which checkpoints were undone."""
    stack.wait_for(lambda: len(stored(stack)) >= 3, "three checkpoints in storage", timeout=60)
    generation = newest_plan(stack)["generation"]
    chosen, *later = stored(stack)[-2:]
    stack.rest.post("topologies/hashtags/restore/", {"reason": "test", "checkpoint": chosen})
    stack.wait_for(lambda: newest_plan(stack)["generation"] > generation, "a plan")
    plan = newest_plan(stack)
    assert (plan["kind"], plan["checkpoint"]) == ("restore", chosen)
    stack.kill_driver()
    healthy(stack)
    states = {row["epoch"]: row["state"] for row in checkpoints(stack)}
    assert [states[number] for number in (chosen, *later)] == ["completed", "undone"]
    advanced(stack, 2)
    exact(stack)


def newest_plan(stack: Stack) -> dict[str, Any]:
    plan: dict[str, Any] = stack.rest.get("topologies/hashtags/plans/")["results"][0]
    return plan


def checkpoints(stack: Stack) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = stack.rest.get("topologies/hashtags/checkpoints/")["results"]
    return rows


def stored(stack: Stack) -> list[int]:
    return sorted(row["epoch"] for row in checkpoints(stack) if row["stored"])


def test_a_node_is_drained_and_comes_back(stack: Stack) -> None:
    """What runs there takes its state along, away and back: nothing is put back to a checkpoint."""
    node = used(stack)[0]
    before = incidents(stack)
    stack.rest.post(f"nodes/{node}/drain/", {"reason": "a new kernel"})
    moved = moves_of(stack, before)
    assert node not in used(stack)
    assert moved["moved_from"] == dict.fromkeys(moved["placed"], node)
    exact(stack)
    stack.rest.post(f"nodes/{node}/activate/", {"reason": "it is back"})
    stack.wait_for(lambda: node in alive(stack), "the node to be back", timeout=30)
    before = incidents(stack)
    stack.rest.post("topologies/hashtags/rebalance/", {"reason": f"{node} has nothing to run"})
    moved = moves_of(stack, before)
    assert node in used(stack)
    assert node in set(moved["placed"].values())
    exact(stack)


def test_queries_are_parked_and_return(stack: Stack) -> None:
    """The others go on. What the parked ones have missed is computed when they return."""
    before, parked = incidents(stack), ["O4[0]", "O5[0]"]
    stack.rest.post("topologies/hashtags/park/", {"queries": parked, "reason": "room for the others"})
    stack.wait_for(lambda: states(stack, parked) == {"parked"}, "the queries to be parked", timeout=60)
    stack.wait_for(
        lambda: not set(parked) & stack.plan()["assignment"].keys(), "a plan without them", timeout=30
    )
    others = sorted(queries(stack).keys() - set(parked))
    start = {name: row["epoch"] for name, row in queries(stack).items()}
    stack.wait_for(
        lambda: all(queries(stack)[name]["epoch"] >= start[name] + 5 for name in others), "five more epochs"
    )
    assert states(stack, parked) == {"parked"}
    stack.wait_for(lambda: states(stack, others) == {"available"}, "the others to be available", timeout=60)
    stack.rest.post("topologies/hashtags/unpark/", {"reason": "there is room"})
    stack.wait_for(lambda: states(stack, parked) == {"available"}, "their return", timeout=120)
    healthy(stack)
    assert incidents(stack) == before + 1
    number = stack.incidents()[-1]["number"]
    restored = {plan["wave"]: plan["restore"] for plan in stack.rest.listing(f"incidents/{number}/plans/")}
    assert restored == {1: [], 2: parked}
    exact(stack)


def queries(stack: Stack) -> dict[str, Any]:
    return {row["partition"]: row for row in stack.rest.listing("topologies/hashtags/queries/")}


def states(stack: Stack, names: list[str]) -> set[str]:
    found = queries(stack)
    return {found[name]["status"] for name in names}


def moves_of(stack: Stack, before: int) -> dict[str, Any]:
    """Wait until an incident after so many has moved partitions; returns what its plan tells of them. The
    driver's log says of how many the state was handed over."""
    stack.wait_for(lambda: incidents(stack) == before + 1, "an incident", timeout=30)
    healthy(stack)
    number = stack.incidents()[-1]["number"]
    (plan,) = stack.rest.listing(f"incidents/{number}/plans/")
    assert (plan["kind"], plan["state"], plan["rollback"]) == ("move", "verified", False), plan
    assert HANDED_OVER.findall(stack.log("driver.hashtags"))[-1] == str(len(plan["restore"])), plan
    return dict(plan["explanation"])


def seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()
