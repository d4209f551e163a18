"""On a terminal: questions, lists of what will happen, tables, progress, and the live view."""

from __future__ import annotations

import os
import signal

import httpx
import pytest

from tests.unit.cli.running import Terminal, Wire, newest
from tests.unit.cli.serving import Server


def test_a_destructive_change_is_explained_asked_about_and_followed(
    variables: dict[str, str], rest: httpx.Client
) -> None:
    before = newest(rest)
    with Terminal("nodes", "drain", "node-1", variables=variables) as terminal:
        terminal.until("Reason:")
        assert "Drain node-1" in terminal.screen
        assert "partitions of hashtags move to other nodes with their state: " in terminal.words
        assert "No query goes back to a checkpoint" in terminal.words
        terminal.type("  \n")
        terminal.until("give a reason")
        terminal.type("its disk is full\n")
        terminal.until("Continue? [y/N]:")
        terminal.type("n\n")
        terminal.end()
        assert "resurge: nothing was changed" in terminal.screen
        assert terminal.code == 1
    assert newest(rest) == before
    with Terminal(
        "nodes", "drain", "node-1", "--reason", "its disk is full", variables=variables
    ) as terminal:
        terminal.until("Continue? [y/N]:")
        terminal.type("y\n")
        terminal.until("drain node-1: pending for")
        terminal.type("\x03")
        terminal.end()
        assert "it continues; see `resurge operations show" in terminal.words
        assert terminal.code == 130
    asked = rest.get("operations/?target=node-1").json()["results"][0]
    assert (asked["reason"], asked["state"]) == ("its disk is full", "pending")


def test_draining_a_rack_says_what_moves_and_what_has_no_room(
    variables: dict[str, str], rest: httpx.Client
) -> None:
    before = newest(rest)
    outlook = rest.get("racks/rack-a/").json()
    with Terminal("racks", "drain", "rack-a", "--reason", "a new switch", variables=variables) as terminal:
        terminal.until("Continue? [y/N]:")
        told = terminal.words
        assert "Drain the nodes of rack-a" in terminal.screen
        assert f"{len(outlook['leaving'])} nodes will be drained" in told
        assert "of hashtags move with their state: " in told
        stuck = sum(not move["fits"] for move in outlook["moves"])
        assert (f"{stuck} partitions have no room elsewhere and stay until there is" in told) == (stuck > 1)
        terminal.type("n\n")
        terminal.end()
        assert terminal.code == 1
    assert newest(rest) == before


def test_a_change_that_interrupts_nothing_is_explained_and_not_asked_about(
    variables: dict[str, str], rest: httpx.Client
) -> None:
    with Terminal("topologies", "rebalance", "trending", "--no-wait", variables=variables) as terminal:
        terminal.until("Reason:")
        assert "Rebalance the partitions of trending" in terminal.screen
        assert "No query goes back to a checkpoint" in terminal.words
        assert "nodes are alive, " in terminal.words
        terminal.type("two new nodes\n")
        terminal.end()
        assert terminal.code == 0
    asked = rest.get("operations/?target=trending&kind=topology.rebalance").json()["results"][0]
    assert asked["reason"] == "two new nodes"
    before = newest(rest)
    with Terminal("topologies", "rebalance", "mentions", variables=variables) as terminal:
        terminal.end()
        assert "only partitions that run can move" in terminal.words
        assert terminal.code == 1
    assert newest(rest) == before


def test_a_token_is_asked_for_and_not_echoed(
    variables: dict[str, str], tokens: dict[str, str], server: Server
) -> None:
    signed_out = {**variables, "RESURGE_URL": "", "RESURGE_TOKEN": ""}
    with Terminal("login", server.url, variables=signed_out) as terminal:
        terminal.until(f"Token for {server.url}:")
        terminal.type(tokens["viewer"] + "\n")
        terminal.end()
        assert terminal.code == 0
        assert "role viewer" in terminal.words
        assert tokens["viewer"] not in terminal.written


@pytest.mark.parametrize("columns", [46, 120])
def test_watching_through_a_cut(
    variables: dict[str, str], wire: Wire, rest: httpx.Client, columns: int
) -> None:
    through = {**variables, "RESURGE_URL": wire.url}
    with Terminal("watch", variables=through, columns=columns, rows=70) as terminal:
        terminal.until("● live")
        for text in ("✗ Incident 2", "wave 1", "waits: resurge incidents approve 2", "✗ 4 lost", "hashtags"):
            assert text in terminal.words
        assert "━" in terminal.screen if columns > 100 else "━" not in terminal.screen
        wire.down = True
        wire.cut()
        terminal.until("▲ reconnecting")
        priority = 9 if columns > 100 else 8
        body = {"priorities": {"O5[0]": priority}, "reason": "during the interruption"}
        assert rest.patch("topologies/hashtags/queries/", json=body).status_code == 200
        wire.down = False
        terminal.until(f"O5[0] ✗ Failed priority {priority}")
        terminal.until("● live")
        terminal.type("\x03")
        terminal.end()
        assert terminal.code == 0


def test_the_view_is_cut_to_a_low_terminal(variables: dict[str, str]) -> None:
    with Terminal("watch", variables=variables, columns=80, rows=12) as terminal:
        terminal.until("more lines: the terminal is too small")
        assert "Resurge" in terminal.screen.splitlines()[0]
        os.kill(terminal.pid, signal.SIGINT)
        terminal.end()
        assert terminal.code == 0
