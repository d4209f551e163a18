"""Waves in words: what is restored, and what moves while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from cli.asking import Effect
from cli.commands.incidents import _proposed
from cli.live.lines import summary
from cli.live.state import State
from cli.live.view import _incident
from cli.waves import wave_partitions, wave_places, wave_state

RESTORES: dict[str, Any] = {
    "topology": "counts",
    "incident": 1,
    "wave": 1,
    "generation": 4,
    "method": "incremental",
    "state": "applied",
    "assignment": {"O1[0]": "node-5", "O2[0]": "node-6", "O3[0]": "node-1"},
    "restore": ["O1[0]", "O2[0]"],
    "explanation": {"queries": ["O2[0]"]},
    "created_at": "2026-01-31T08:00:00Z",
    "applied_at": "2026-01-31T08:00:02Z",
    "caught_up_at": None,
}
MOVES = {
    **RESTORES,
    "method": "move",
    "explanation": {"moved_from": {"O1[0]": "node-2", "O2[0]": "node-2"}},
}
PROPOSAL: dict[str, Any] = {
    "proposal": "counts-w2-abc",
    "wave": 2,
    "method": "move",
    "rollback": False,
    "restore": ["O3[0]"],
    "queries": [],
}


def state_of(plan: dict[str, Any]) -> State:
    incident = {
        "number": 1,
        "health": {"state": "replaying", "word": "Replaying", "tone": "busy", "note": ""},
        "method": "move",
        "detected_at": "2026-01-31T08:00:00Z",
        "first_query_at": None,
        "half_queries_at": None,
        "all_queries_at": None,
        "failed_nodes": [],
        "proposals": {"counts": PROPOSAL},
    }
    shown = State()
    shown.load(
        {
            "sequence": 1,
            "server_time": "2026-01-31T08:00:10Z",
            "entities": {"incident": {"1": incident}, "plan": {"counts/4": plan}},
        }
    )
    return shown


@pytest.mark.parametrize(
    ("plan", "state", "partitions", "places"),
    [
        (RESTORES, "replaying", "2 partitions", "on node-5, node-6"),
        (MOVES, "catching up", "2 partitions moved", "from node-2 to node-5, node-6"),
        (
            {**MOVES, "state": "published", "applied_at": None},
            "published",
            "2 partitions to move",
            "from node-2 to node-5, node-6",
        ),
        (
            {**MOVES, "caught_up_at": "2026-01-31T08:00:03Z", "explanation": {}},
            "caught up",
            "2 partitions moved",
            "on node-5, node-6",
        ),
    ],
    ids=["restores", "moves", "is to move", "has moved"],
)
def test_words(plan: dict[str, Any], state: str, partitions: str, places: str) -> None:
    assert (wave_state(plan), wave_partitions(plan), wave_places(plan, 4)) == (state, partitions, places)


def test_lines_of_the_live_view() -> None:
    start = "incident 1 wave 1 of counts: "
    assert f"{start}replaying, 2 partitions, 1 query" in list(summary(state_of(RESTORES)))
    moved = f"{start}catching up, 2 partitions moved from node-2 to node-5, node-6"
    assert moved in list(summary(state_of(MOVES)))


def test_the_live_view() -> None:
    shown = state_of(MOVES)
    parts = list(_incident(shown, shown.entities["incident"]["1"], 120))
    assert any("wave 2 of counts would move 1 partition and waits: " in str(part) for part in parts)


def test_a_proposed_move_goes_back_to_no_checkpoint() -> None:
    assert _proposed("counts", PROPOSAL) == Effect(
        "counts-w2-abc, wave 2 of counts: 1 partition moved, no query goes back to a checkpoint",
        ["O3[0]"],
    )
