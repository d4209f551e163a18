"""What the command line says of a topology whose guarantee is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from cli.acting import OPERATION
from cli.commands.topologies import TOPOLOGIES, TOPOLOGY
from cli.guarantee import keys, park_effects, recover_effects, undeploy_effect, unpark_effect
from cli.words import DASH, share

NODE = {
    "stored": 1_200, "stored_bytes": 4_500_000, "changed": 30, "storing_bypassed_until": 0.0,
    "fetching_bypassed_until": 0.0,
}  # fmt: skip


def row_of(guarantee: str, **nodes: Any) -> dict[str, Any]:
    return {"guarantee": guarantee, "head_epoch": 25, "checkpoint_epoch": 20, "keys": nodes}


def cell(columns: Any, title: str, row: dict[str, Any]) -> Any:
    return next(column.value(row) for column in columns if column.title == title)


def test_no_checkpoint_is_shown_where_there_are_none() -> None:
    for columns, title in ((TOPOLOGIES, "CHECKPOINT"), (TOPOLOGY, "checkpoint")):
        assert cell(columns, title, row_of("exact")) == "20"
        assert cell(columns, title, row_of("bounded")) == DASH


def test_states_of_keys_are_added_up_over_nodes() -> None:
    assert keys(row_of("bounded")) is None
    away = {**NODE, "fetching_bypassed_until": 2_000_000_000.0}
    assert keys(row_of("bounded", a=NODE, b=NODE)) == "2,400 stored (9.0 MB), 60 changed and not stored yet"
    assert str(keys(row_of("bounded", a=NODE, b=away))).endswith("yet, storage bypassed by 1 node")


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        ("exact", ["goes back to its checkpoint", "checkpoint is at epoch 20", "5 epochs are replayed"]),
        ("bounded", ["No partition has failed.", "begin without state", "is fetched when its first row"]),
    ],
)
def test_what_a_recovery_costs(guarantee: str, words: list[str]) -> None:
    found = recover_effects(row_of(guarantee), [])
    assert len(found) == len(words)
    assert all(word in effect.text for word, effect in zip(words, found, strict=True))
    (first, *_) = recover_effects(row_of(guarantee), ["O0[0]"])
    assert (first.text, first.names, first.warning) == ("1 partition is restored", ["O0[0]"], True)


def test_what_stopping_costs() -> None:
    exact, bounded = row_of("exact"), row_of("bounded")
    assert "leaves a checkpoint" in undeploy_effect(exact).text
    assert "there is no checkpoint" in undeploy_effect(bounded).text
    assert [one.warning for one in park_effects(exact)] == [False, True]
    (lost,) = park_effects(bounded)
    assert ("is lost" in lost.text, lost.warning) == (True, True)
    assert "replay" in unpark_effect(exact).text
    assert "without what they missed" in unpark_effect(bounded).text


def test_the_deviation_of_a_verification_is_a_share() -> None:
    result = {"progress": None, "queries": 2, "exact": 1, "wrong": [], "deviation": 0.0123,
              "deviating": ["O1[0]: 3 missing (of 90 rows)"]}  # fmt: skip
    shown = cell(OPERATION, "result", {"result": result})
    assert shown == "queries 2, exact 1, deviation 1.23 %, deviating O1[0]: 3 missing (of 90 rows)"
    assert [share(value) for value in (0.0, 0.00002, 0.5)] == ["0.00 %", "less than 0.01 %", "50.00 %"]
