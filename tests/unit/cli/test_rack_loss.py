"""What `topologies show` says of the loss of a rack."""

from __future__ import annotations

from typing import Any

import pytest

from cli.commands.topologies import _rack_loss
from cli.words import percent


def loss(rack: str, queries: int, share: float, node: str = "") -> dict[str, Any]:
    return {"rack": rack, "node": node, "queries": queries, "share": share, "common": True}


@pytest.mark.parametrize(
    ("racks", "fatal", "losses", "said"),
    [
        (0, 0, [], ""),
        (1, 1, [loss("rack-a", 3, 1.0)], "every query: all nodes are in rack-a"),
        (3, 1, [loss("r1", 3, 1.0)], "every query, if it is r1"),
        (3, 3, [loss("r1", 3, 1.0)], "every query, if it is r1 or one of 2 more"),
        (
            2,
            0,
            [loss("", 1, 0.25, "node-4")],
            f"at most 1 query, {percent(0.25)} of the priority, if it is node-4",
        ),
    ],
)
def test_words(racks: int, fatal: int, losses: list[dict[str, Any]], said: str) -> None:
    assert _rack_loss({"racks": racks, "fatal": fatal, "losses": losses}) == said
