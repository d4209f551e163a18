"""Lists and objects: JSON is that of REST, tables have the main fields, and every failure has its exit
code."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli import client
from tests.browser.servers import free_port
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.running import Wire
from tests.unit.cli.serving import Server

LISTS = {
    ("topologies", "list"): "topologies/",
    ("nodes", "list"): "nodes/",
    ("incidents", "list"): "incidents/",
    ("incidents", "plans", "2"): "incidents/2/plans/",
    ("queries", "list", "hashtags"): "topologies/hashtags/queries/",
    ("queries", "tentative", "hashtags"): "topologies/hashtags/tentative/",
    ("checkpoints", "list", "--limit", "5"): "checkpoints/?limit=5",
    ("checkpoints", "list", "hashtags", "--state", "failed"): "topologies/hashtags/checkpoints/?state=failed",
    ("problems", "list"): "problems/",
    ("audit", "list", "--limit", "3"): "audit/?limit=3",
    (
        "audit",
        "list",
        "--channel",
        "admin",
        "--channel",
        "rest",
    ): "audit/?channel=admin&channel=rest&limit=50",
    ("operations", "list", "--state", "failed"): "operations/?state=failed",
    ("pipelines", "list"): "pipelines/",
    ("events", "list", "--after", "3", "--limit", "4"): "events/?after=3&limit=4",
    ("events", "list", "--kind", "node.joined"): "events/?kind=node.joined&newest=true&limit=50",
}
OBJECTS = {
    ("topologies", "show", "hashtags"): "topologies/hashtags/",
    ("policy", "show", "hashtags"): "topologies/hashtags/policy/",
    ("nodes", "show", "node-1"): "nodes/node-1/",
    ("racks", "show", "rack-a"): "racks/rack-a/",
    ("incidents", "show", "2"): "incidents/2/",
    ("settings", "show"): "settings/",
}


def by_key(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_a_list_is_what_rest_says(
    resurge: Resurge, rest: httpx.Client, tokens: dict[str, str], command: tuple[str, ...]
) -> None:
    answer = resurge(*command)
    assert (answer.code, answer.err) == (0, "")
    # As the same user: the audit trail is not the same for all.
    said = rest.get(LISTS[command], headers={"Authorization": f"Bearer {tokens['operator']}"}).json()
    assert by_key(answer.json) == by_key(said["results"] if isinstance(said, dict) else said)
    table = resurge(*command, "-o", "table")
    assert table.code == 0
    assert "\x1b" not in table.out, "no colours where there is no terminal"
    for row in answer.json:
        names = [row[name] for name in ("name", "partition", "number", "sequence", "wave") if name in row]
        assert not names or str(names[0]) in table.out


@pytest.mark.parametrize("command", OBJECTS, ids=" ".join)
def test_an_object_is_what_rest_says(resurge: Resurge, rest: httpx.Client, command: tuple[str, ...]) -> None:
    answer = resurge(*command)
    assert (answer.code, answer.err) == (0, "")
    assert answer.json == rest.get(OBJECTS[command]).json()
    table = resurge(*command, "-o", "table")
    assert table.code == 0
    assert str(answer.json.get("name", "")) in table.out


def test_pages_are_put_together(
    resurge: Resurge, rest: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 5)
    everything = rest.get("nodes/").json()["results"]
    assert len(everything) > 5
    assert by_key(resurge("nodes", "list").json) == by_key(everything)
    assert len(resurge("checkpoints", "list", "--limit", "7").json) == 7
    checkpoints = rest.get("checkpoints/?limit=1000").json()["results"]
    assert by_key(resurge("checkpoints", "list", "--limit", "all").json) == by_key(checkpoints)
    for wrong in ("0", "-1", "many", "1.5"):
        assert resurge("checkpoints", "list", "--limit", wrong).code == 2
    assert resurge("events", "list", "--limit", "all").code == 2, "the newest are one page"
    assert len(resurge("events", "list", "--after", "0", "--limit", "12").json) == 12


def test_filters(resurge: Resurge) -> None:
    assert {row["state"] for row in resurge("nodes", "list", "--state", "lost").json} == {"lost"}
    assert {row["rack"] for row in resurge("nodes", "list", "--rack", "rack-b").json} == {"rack-b"}
    down = resurge("queries", "list", "--down").json
    assert down
    assert not any(row["available"] for row in down)
    assert [row["number"] for row in resurge("incidents", "list", "--open").json] == [2]
    assert [row["number"] for row in resurge("incidents", "list", "--topology", "hashtags").json] == [2, 1]
    assert resurge("incidents", "list", "--topology", "trending").json == []
    assert resurge("topologies", "list", "--status", "completed").json[0]["name"] == "mentions"
    several = resurge("topologies", "list", "--status", "completed", "--status", "running").json
    assert {row["status"] for row in several} == {"completed", "running"}
    assert [row["name"] for row in resurge("topologies", "list", "--search", "trend").json] == ["trending"]
    assert [row["number"] for row in resurge("incidents", "list", "--node", "node-5").json] == [1]
    assert [row["number"] for row in resurge("incidents", "list", "--state", "closed").json] == [1]
    assert resurge("nodes", "list", "--standby").json == []


def test_filters_are_the_servers(resurge: Resurge, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.URL] = []
    send = httpx.Client.send

    def sent(self: httpx.Client, request: httpx.Request, **more: Any) -> httpx.Response:
        asked.append(request.url)
        return send(self, request, **more)

    monkeypatch.setattr(httpx.Client, "send", sent)
    resurge("incidents", "list", "--open", "--topology", "hashtags", "--state", "open", "--limit", "7")
    resurge("operations", "list", "--kind", "node.drain", "--by", "ada", "--target", "node-1")
    resurge("problems", "list", "--severity", "error", "--severity", "warning", "--limit", "all")
    span = ("--since", "2026-01-31T08:00Z", "--until", "2026-01-31T09:30+01:00")
    resurge("audit", "list", "--actor", "kim", *span)
    *others, audit = asked
    assert [(url.path.removeprefix("/api/v1/"), str(url.params.remove("offset"))) for url in others] == [
        ("incidents/", "topology=hashtags&state=open&open=true&limit=7"),
        ("operations/", "requested_by=ada&target=node-1&kind=node.drain&limit=50"),
        ("problems/", "severity=error&severity=warning&limit=1000"),
    ]
    since, until = (datetime.fromisoformat(audit.params[name]) for name in ("since", "until"))
    assert (audit.params["actor"], (until - since).total_seconds()) == ("kim", 1800)


def test_a_span_of_time(resurge: Resurge) -> None:
    everything = [row["at"] for row in resurge("audit", "list", "--limit", "all").json]
    assert everything == sorted(everything, reverse=True)
    middle = everything[len(everything) // 2]
    late = [row["at"] for row in resurge("audit", "list", "--since", middle, "--limit", "all").json]
    early = [row["at"] for row in resurge("audit", "list", "--until", middle, "--limit", "all").json]
    assert late + early == everything
    assert middle in late
    assert [row["number"] for row in resurge("incidents", "list", "--since", "1h").json] == [2]
    assert [row["number"] for row in resurge("incidents", "list", "--until", "60m").json] == [1]
    for wrong in ("soon", "5y", "2026-13-01", ""):
        assert resurge("incidents", "list", "--since", wrong).code == 2


def test_an_empty_table_says_so_beside_the_output(resurge: Resurge) -> None:
    answer = resurge("operations", "list", "--target", "nothing", "-o", "table")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "No operations found.\n"
    assert resurge("operations", "list", "--target", "nothing").json == []


def test_an_incident_is_told_with_its_waves_its_proposal_and_its_story(resurge: Resurge) -> None:
    told = resurge("incidents", "show", "2", "-o", "table").out
    assert "incremental" in told
    assert "● caught up" in told
    assert "aits for approval" in told
    assert "PROPOSAL" in told
    assert "node-2: no heartbeat for 4.3 s; its registration is gone." in told


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("topologies", "show", "nothing"), "topologies/nothing: "),
        (("nodes", "show", "no/such node"), "nodes/no/such node: there is nothing"),
        (("incidents", "show", "99"), "incidents/99: "),
        (("operations", "show", "nothing"), "operations/nothing: there is nothing"),
        (("queries", "list", "nothing"), "topologies/nothing/queries: there is no topology 'nothing'"),
    ],
)
def test_what_is_not_there(resurge: Resurge, command: tuple[str, ...], said: str) -> None:
    answer = resurge(*command)
    assert (answer.code, answer.out) == (6, "")
    assert len(answer.err.splitlines()) == 1
    assert f"resurge: {said}" in answer.err


def test_no_server(resurge: Resurge) -> None:
    answer = resurge("nodes", "list", RESURGE_URL=f"http://127.0.0.1:{free_port()}")
    assert (answer.code, answer.out) == (3, "")
    assert len(answer.err.splitlines()) == 1
    assert "is the server running" in answer.err


def test_another_server(resurge: Resurge, server: Server) -> None:
    answer = resurge("nodes", "list", "--url", f"{server.url}/login", RESURGE_URL="")
    assert answer.code == 3
    assert "does not answer as a Resurge server does" in answer.err


@pytest.mark.parametrize(
    "host", ["ex_ample..com", "a" * 80, "xn--", "ü..com", "999.1.1.1"], ids=["dots", "long", "xn", "ü", "999"]
)
def test_an_address_that_no_server_can_have(resurge: Resurge, host: str) -> None:
    answer = resurge("nodes", "list", RESURGE_URL=f"http://{host}/")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"http://{host} is not an address" in answer.err


def test_a_server_that_does_not_answer(resurge: Resurge, wire: Wire) -> None:
    wire.mute = True
    answer = resurge("nodes", "list", "--timeout", "0.3", RESURGE_URL=wire.url)
    assert answer.code == 5
    assert "within 0.3 s" in answer.err
    assert "--timeout" in answer.err


def test_a_lost_answer_is_asked_for_again(
    resurge: Resurge, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    wire.lose_answer()
    assert resurge("whoami", RESURGE_URL=wire.url).code == 0
    assert wire.lost == 1


@pytest.mark.parametrize("token", ["", "0" * 64])
def test_without_a_valid_token(resurge: Resurge, token: str) -> None:
    answer = resurge("nodes", "list", RESURGE_TOKEN=token)
    assert (answer.code, answer.out) == (4, "")
    assert len(answer.err.splitlines()) == 1
    assert "resurge login" in answer.err
    assert not token or token not in answer.err


def test_a_broken_configuration(resurge: Resurge, variables: dict[str, str]) -> None:
    path = Path(variables["RESURGE_CONFIG"])
    path.parent.mkdir()
    path.write_text("{")
    path.chmod(0o600)
    answer = resurge("nodes", "list", RESURGE_URL="", RESURGE_TOKEN="")
    assert answer.code == 2
    assert f"{path} is not JSON" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [("nodes", "lisst"), ("nodes", "list", "--outputt"), ("incidents", "show", "one"), ("nodes", "show"),
     ("what-if",), ("nodes", "list", "-o", "xml"), ("watch", "-o", "json")],
)  # fmt: skip
def test_wrong_usage_is_one_line(resurge: Resurge, arguments: tuple[str, ...]) -> None:
    answer = resurge(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("resurge: ")
    assert len(answer.err.splitlines()) == 1


def test_help_names_the_exit_codes_and_gives_examples(resurge: Resurge) -> None:
    assert "130 interrupted" in resurge("--help").out
    assert "Example" in resurge("nodes", "drain", "--help").out
    assert "--reason" in resurge("nodes", "drain", "--help").out
