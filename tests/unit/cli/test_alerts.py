"""Alerts: what the command line shows is what REST says, and silences and rules are made and ended."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.unit.cli.conftest import Resurge

WHY = ("--reason", "a test")


@pytest.fixture
def administrator(tokens: dict[str, str]) -> dict[str, str]:
    return {"RESURGE_TOKEN": tokens["administrator"]}


def test_lists_say_what_rest_says(resurge: Resurge, rest: httpx.Client) -> None:
    assert resurge("alerts", "rules").json == rest.get("alert-rules/").json()["results"]
    told = resurge("alerts", "rules", "-o", "table")
    assert told.err == ""
    table = told.out
    assert "lag above 30 for 1 min 0 s" in table
    assert "○ off" in table, "one of the rules is off at first"
    going_on = rest.get("alerts/?state=firing&state=pending&state=missing").json()["results"]
    assert resurge("alerts", "list").json == going_on
    assert resurge("alerts", "show", "999999").code == 6
    assert resurge("alerts", "rule", "lag-high").json == rest.get("alert-rules/lag-high/").json()


def test_a_silence_is_made_shown_and_ended(resurge: Resurge, rest: httpx.Client) -> None:
    assert resurge("alerts", "silence", "--for", "2h", *WHY).code == 2, "of what?"
    assert resurge("alerts", "silence", "--rule", "lag-high", "--for", "2h").code == 2, "why?"
    assert resurge("alerts", "silence", "--rule", "lag-high", "--for", "31d", *WHY).code == 2
    made = resurge("alerts", "silence", "--topology", "hashtags", "--for", "2h", *WHY)
    assert (made.code, made.json["topology"], made.json["author"]) == (0, "hashtags", "operator")
    number = str(made.json["id"])
    assert [row["id"] for row in resurge("alerts", "silences").json] == [made.json["id"]]
    assert "◐ lasts" in resurge("alerts", "silences", "-o", "table").out
    ended = resurge("alerts", "unsilence", number, *WHY)
    assert (ended.code, ended.json["ended_by"]) == (0, "operator")
    assert resurge("alerts", "silences").json == []
    assert "○ ended" in resurge("alerts", "silences", "--all", "-o", "table").out
    again = resurge("alerts", "unsilence", number, *WHY)
    assert (again.code, "has ended already" in again.err) == (1, True)


def test_a_repeated_command_makes_one_silence(resurge: Resurge) -> None:
    asked = ("alerts", "silence", "--rule", "lag-high", "--for", "2h", *WHY, "--idempotency-key", "move-7")
    first, second = resurge(*asked), resurge(*asked)
    assert (first.code, second.code, second.err) == (0, 0, "")
    assert first.json == second.json
    assert resurge("alerts", "unsilence", str(first.json["id"]), *WHY).code == 0
    longer = resurge(*asked, "--for", "3h")
    assert (longer.code, "was used for another request" in longer.err) == (1, True)


def test_rules_are_for_administrators(resurge: Resurge, administrator: dict[str, str]) -> None:
    asked = ("alerts", "create", "slow", "query_latency", "above", "2", "--for", "1m", "--priority", "5")
    assert resurge(*asked, *WHY).code == 4
    made = resurge(*asked, *WHY, **administrator)
    assert (made.code, made.json["held"], made.json["priority"]) == (0, 60.0, 5)
    assert resurge("alerts", "set", "slow", *WHY, **administrator).code == 2, "what?"
    changed = resurge("alerts", "set", "slow", "--threshold", "3", "--disable", *WHY, **administrator)
    assert (changed.json["threshold"], changed.json["enabled"]) == (3.0, False)
    wrong = resurge(
        "alerts", "create", "never", "availability", "below", "95", "--for", "1m", *WHY, **administrator
    )
    assert (wrong.code, "0.95 stands for 95 %" in wrong.err) == (1, True)
    gone = resurge("alerts", "delete", "slow", *WHY, "--yes", **administrator)
    assert gone.err == "rule slow is deleted\n"
    assert resurge("alerts", "rule", "slow").code == 6


@pytest.mark.parametrize(
    ("form", "begins"), [("prometheus", "# Alerting rules for Prometheus"), ("grafana", "{")]
)
def test_rules_are_exported(
    resurge: Resurge, rest: httpx.Client, tmp_path: Path, form: str, begins: str
) -> None:
    printed = resurge("alerts", "export", "--format", form)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith(begins)
    assert printed.out == rest.get("alert-rules/export/", params={"format": form}).text
    file = tmp_path / "rules"
    assert resurge("alerts", "export", "--format", form, "--to", str(file)).code == 0
    assert file.read_text() == printed.out
    refused = rest.get("alert-rules/export/", params={"format": "nagios"})
    assert refused.status_code == 400
    assert refused.json()["errors"]
