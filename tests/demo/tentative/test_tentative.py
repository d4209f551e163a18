"""Tentative output on real processes: queries go on without the rows of a lost source, and every final row is
the oracle's."""

from __future__ import annotations

import time
from typing import Any

import pyarrow.parquet as pq
import pytest

from coordination.paths import Paths
from domain.messages import DriverStatus, Replicas, decode
from harness.stack import Stack
from spark_jobs.sinks.tentative import DIRECTORY, FIDELITY
from tests.integration.main_job.course import exact, healthy, homes_of

pytestmark = pytest.mark.integration


def status(stack: Stack) -> DriverStatus:
    with stack.zookeeper() as client:
        return decode(client.get(Paths.driver("hashtags"))[0], DriverStatus)


def told(stack: Stack) -> dict[str, float]:
    """Which queries the driver lets go on, as the control plane has it."""
    with stack.zookeeper() as client:
        path = Paths.replicas("hashtags")
        if not client.exists(path):
            return {}
        return decode(client.get(path)[0], Replicas).tentative


def policy(stack: Stack, **fields: str) -> None:
    stack.rest.patch("topologies/hashtags/policy/", {**fields, "reason": "no query is to wait"})


def states(stack: Stack) -> dict[str, str]:
    rows: list[dict[str, Any]] = stack.rest.listing("topologies/hashtags/queries/")
    return {row["partition"]: row["health"]["state"] for row in rows}


def go_on(stack: Stack) -> set[str]:
    """Lose the node of a parser, while plans wait for an approval; returns the windows that went on."""
    stack.wait_for(lambda: len(told(stack)) == 15, "what the driver is told", timeout=60)
    homes = homes_of(stack)
    node = homes["Parser[0]"]
    left = {query for query in states(stack) if homes[query] != node}
    # Others may read from windows that are lost with the node.
    windows = {query for query in left if query in ("O0[0]", "O1[0]", "O2[0]", "O3[0]")}
    assert windows, "all windows are on the node of the parser"
    before = status(stack).head
    killed = stack.kill_nodes(node)
    stack.wait_for(
        lambda: status(stack).tentative.keys() >= windows, "tentative output", timeout=60, pause=0.05
    )
    waited = time.time() - killed
    said = status(stack).tentative
    print(f"tentative output of {len(said)} queries {waited:.2f} s after SIGKILL")
    assert said.keys() <= left, "what was on the lost node has nothing to go on with"
    assert all(one.since > before - 2 and 0.0 < one.fidelity < 0.98 for one in said.values()), said
    stack.wait_for(
        lambda: set(states(stack).values()) >= {"tentative"}, "the state on pages", timeout=30, pause=0.1
    )

    # The plan waits for an approval, so that windows end meanwhile.
    def long_enough() -> bool:
        now = status(stack).tentative
        return now.keys() >= windows and all(one.epoch > one.since + 4 for one in now.values())

    stack.wait_for(long_enough, "tentative epochs", timeout=120)
    return windows


def test_queries_go_on_without_a_source_and_are_corrected(stack: Stack) -> None:
    healthy(stack)
    policy(stack, tentative_output="on", approval="approve")
    try:
        windows = go_on(stack)
    finally:
        policy(stack, approval="automatic")  # else no later failure would be recovered
    stack.wait_for_incident(state="closed")
    healthy(stack)
    assert not status(stack).tentative
    exact(stack)

    rows = list((stack.home / "outputs" / "hashtags").glob(f"deployed=*/{DIRECTORY}/O*/**/*.parquet"))
    assert rows, "no tentative rows were written"
    for file in rows:
        table = pq.ParquetFile(file).read()
        assert set(table.column("status").to_pylist()) == {"tentative"}
        assert all(0.0 < one < 0.98 for one in table.column(FIDELITY).to_pylist())

    def corrected() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = stack.rest.listing("topologies/hashtags/tentative/")
        return found if {one["query"] for one in found if one["corrected_at"]} >= windows else None

    periods = stack.wait_for(corrected, "the corrections", timeout=120, pause=0.5)
    assert periods is not None
    assert not [one["problem"] for one in periods if one["problem"]]
    stayed, changed = sum(one["stayed"] for one in periods), sum(one["changed"] for one in periods)
    appeared, vanished = sum(one["appeared"] for one in periods), sum(one["vanished"] for one in periods)
    print(f"{stayed} rows stayed, {changed} changed, {appeared} appeared, {vanished} vanished")
    assert changed + appeared, "without a quarter of the rows nothing was different"
    events = stack.rest.listing("events/?topology=hashtags&limit=1000")
    kinds = {event["kind"] for event in events}
    assert {"query.tentative", "query.corrected"} <= kinds


def test_nothing_is_tentative_once_the_policy_says_no(stack: Stack) -> None:
    policy(stack, tentative_output="off")
    before = len(stack.rest.listing("topologies/hashtags/tentative/"))
    stack.wait_for(lambda: not told(stack), "what the driver is told", timeout=60)
    homes = homes_of(stack)
    node = homes["Parser[1]"]
    stack.kill_nodes(node)
    stack.wait_for(lambda: status(stack).absent, "the loss", timeout=60, pause=0.05)
    assert not status(stack).tentative
    stack.wait_for_incident(state="closed")
    healthy(stack)
    assert not status(stack).tentative
    assert len(stack.rest.listing("topologies/hashtags/tentative/")) == before, (
        "no query was tentative meanwhile"
    )
    exact(stack)
