"""Topologies that do not run, nodes that are history, and durations with units."""

from __future__ import annotations

from typing import Any

import click
import pytest

from cli.commands.topologies import TOPOLOGIES
from cli.durations import Duration
from cli.live.lines import summary
from cli.live.state import State
from tests.unit.cli.healths import health_of


def row_of(status: str) -> dict[str, Any]:
    judged: dict[str, Any] = {"value": 15, "limit": 15} if status in ("running", "failed") else {}
    return {
        "name": "counts", "status": status, "health": health_of(status, **judged),
        "queries_available": 15, "queries_total": 15,
        "worst_relative_latency": 1.02, "input_rate": 300.0, "head_epoch": 9, "checkpoint_epoch": 5,
    }  # fmt: skip


def cells(status: str) -> list[Any]:
    return [
        one.value(row_of(status)) for one in TOPOLOGIES if one.title in ("AVAILABLE", "WORST", "TUPLES/S")
    ]


@pytest.mark.parametrize("status", ["paused", "stopped", "draft", "completed"])
def test_figures_of_a_topology_that_does_not_run_are_dashes(status: str) -> None:
    assert cells(status) == ["–", "–", "–"]


def test_figures_of_one_that_runs_or_failed() -> None:
    assert cells("running") == ["15/15", "1.02×", "300"]
    assert cells("failed") == ["15/15", "–", "–"]


def shown_of(status: str, *, incidents: dict[str, Any]) -> State:
    query = {
        "topology": "counts",
        "partition": "O1[0]",
        "priority": 1,
        "status": "starting",
        "available": False,
        "health": health_of("starting" if status == "running" else "idle"),
    }
    states = {"node-1": "alive", "node-2": "lost" if incidents else "replaced", "node-3": "gone"}
    nodes = {
        name: {"name": name, "health": health_of(state), "rack": "r", "last_heartbeat": None}
        for name, state in states.items()
    }
    shown = State()
    shown.load(
        {
            "sequence": 1,
            "server_time": "2026-01-31T08:00:10Z",
            "entities": {
                "topology": {"counts": row_of(status)},
                "query": {"counts/O1[0]": {**query, "relative_latency": None}},
                "node": nodes,
                "incident": incidents,
            },
        }
    )
    return shown


def test_the_live_view_says_nothing_of_queries_of_a_topology_that_is_stopped() -> None:
    assert list(summary(shown_of("stopped", incidents={}))) == ["topology counts: Stopped", "nodes: 1 alive"]
    assert [row["partition"] for row in shown_of("running", incidents={}).queries_down()] == ["O1[0]"]


def test_a_lost_node_is_shown_while_an_incident_recovers_from_its_loss() -> None:
    incident = {"number": 3, "health": health_of("replaying"), "failed_nodes": ["node-2"]}
    named = [row["name"] for row in shown_of("running", incidents={"3": incident}).nodes()]
    assert named == ["node-1", "node-2"]
    assert [row["name"] for row in shown_of("running", incidents={}).nodes()] == ["node-1"]


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("0.5", 0.5), ("15m", 900.0), ("1h", 3600.0)])
def test_durations(text: str, seconds: float) -> None:
    assert Duration(0.1, 86_400).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "2d", "1h30"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration(0.1, 86_400).convert(text, None, None)
