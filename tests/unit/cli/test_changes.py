"""Changes: a reason, a confirmation, an operation followed to its end, and an entry in the audit trail."""

from __future__ import annotations

import json
import re
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli import client
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.running import Wire, newest
from tests.unit.controlplane.specs import spec_of

WHY = ("--reason", "a test")
SPEC = """
name: {name}
operators:
  - {{name: Source, kind: source, params: {{rate: 10}}}}
  - name: Words
    kind: flat_map_regex
    inputs: [{{from: Source, partitioning: one_to_one}}]
    params: {{pattern: '#(\\w+)'}}
    output: true
"""
QUERY = (
    "  - {name: Q, kind: sql, inputs: [{from: Words}], params: {query: 'SELECT random() AS r FROM input'}}\n"
)
WRONG = "name: wrong\noperators: [{name: A, kind: nonsense}, {name: B, kind: filter, inputs: [{from: C}]}]\n"


@pytest.mark.parametrize(
    "command",
    [
        ("nodes", "drain", "node-1", "--yes"),
        ("racks", "drain", "rack-a", "--yes"),
        ("policy", "set", "hashtags", "--method", "auto"),
        ("queries", "prioritise", "hashtags", "O3[0]=4"),
        ("topologies", "create", "--pipeline", "trending"),
        ("topologies", "deploy", "mentions"),
        ("topologies", "rebalance", "trending"),
        ("tokens", "create", "--show"),
    ],
    ids=" ".join,
)
def test_nothing_changes_without_a_reason(
    resurge: Resurge, rest: httpx.Client, command: tuple[str, ...]
) -> None:
    before = newest(rest)
    answer = resurge(*command)
    assert (answer.code, answer.out) == (2, "")
    assert "--reason" in answer.err
    assert newest(rest) == before


@pytest.mark.parametrize(
    "command",
    [
        ("topologies", "undeploy", "hashtags"),
        ("topologies", "recover", "hashtags"),
        ("topologies", "restore", "trending", "5310"),
        ("topologies", "delete", "mentions"),
        ("nodes", "drain", "node-1"),
        ("racks", "drain", "rack-a"),
        ("nodes", "fail", "node-1"),
        ("incidents", "abort", "2"),
        ("incidents", "replan", "2"),
        ("incidents", "approve", "2"),
        ("tokens", "revoke", "abc"),
    ],
    ids=" ".join,
)
def test_what_destroys_needs_a_yes(resurge: Resurge, rest: httpx.Client, command: tuple[str, ...]) -> None:
    before = newest(rest)
    answer = resurge(*command, *WHY)
    assert (answer.code, answer.out) == (2, "")
    assert "--yes" in answer.err
    assert newest(rest) == before


def test_a_viewer_is_refused(resurge: Resurge, tokens: dict[str, str]) -> None:
    for command in (("nodes", "drain", "node-1", "--yes"), ("policy", "set", "hashtags", "--method", "auto")):
        answer = resurge(*command, *WHY, RESURGE_TOKEN=tokens["viewer"])
        assert (answer.code, answer.out) == (4, "")
        assert answer.err.splitlines() == [
            "resurge: Your role does not permit this; ask an administrator for the operator role."
        ]
    assert resurge("nodes", "list", RESURGE_TOKEN=tokens["viewer"]).code == 0


def test_an_operation_is_followed_and_audited(resurge: Resurge, rest: httpx.Client) -> None:
    reason = 'the provider is repaired, "soon" – really'
    paused = resurge("incidents", "pause", "2", "--reason", reason)
    assert (paused.code, paused.err) == (0, "")
    assert paused.json["state"] == "succeeded"
    assert paused.json == rest.get(f"operations/{paused.json['id']}/").json()
    entry = resurge("audit", "list", "--action", "incident.pause", "--limit", "1").json[0]
    assert (entry["actor"], entry["channel"], entry["reason"]) == ("operator", "cli", reason)
    again = resurge("incidents", "pause", "2", *WHY)
    assert (again.code, again.err) == (1, "resurge: incident 2 is paused already\n")
    table = resurge("incidents", "resume", "2", *WHY, "-o", "table")
    assert table.code == 0
    assert "✓ succeeded" in table.out


def test_evening_out_the_nodes(resurge: Resurge) -> None:
    asked = resurge("topologies", "rebalance", "trending", *WHY, "--no-wait")
    assert (asked.code, asked.err) == (0, "")
    assert (asked.json["kind"], asked.json["target"]) == ("topology.rebalance", "trending")
    refused = resurge("topologies", "rebalance", "mentions", *WHY)
    assert (refused.code, refused.err) == (
        1,
        "resurge: topology 'mentions' is completed: only partitions that run can move to other nodes\n",
    )


def test_not_waiting_and_waiting_too_short(resurge: Resurge) -> None:
    at_once = resurge("topologies", "checkpoint", "hashtags", *WHY, "--no-wait")
    if at_once.code == 1:  # it is recovering by now
        at_once = resurge("nodes", "drain", "node-3", *WHY, "--yes", "--no-wait")
    assert at_once.code == 0
    assert at_once.json["state"] == "pending"
    late = resurge("operations", "show", at_once.json["id"], "--wait", "--wait-timeout", "0.3")
    assert (late.code, late.out) == (5, "")
    assert f"resurge operations show {at_once.json['id']}" in late.err


def test_the_same_key_is_the_same_operation(resurge: Resurge) -> None:
    asked = ("nodes", "drain", "node-5", *WHY, "--yes", "--no-wait")
    first = resurge(*asked, "--idempotency-key", "maintenance-7").json
    assert resurge(*asked, "--idempotency-key", "maintenance-7").json["id"] == first["id"]
    assert resurge(*asked).json["id"] != first["id"]
    other = resurge("nodes", "drain", "node-7", *WHY, "--yes", "--idempotency-key", "maintenance-7")
    assert other.code == 1
    assert "was used for node.drain of node-5" in other.err


def test_an_answer_that_is_lost_is_one_operation(
    resurge: Resurge, rest: httpx.Client, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    wire.lose_answer()
    reason = "asked for through a bad line"
    answer = resurge(
        "nodes", "drain", "node-7", "--reason", reason, "--yes", "--no-wait", RESURGE_URL=wire.url
    )
    assert answer.code == 0
    assert wire.lost == 1
    operations = rest.get("operations/?target=node-7").json()["results"]
    assert [one["id"] for one in operations if one["reason"] == reason] == [answer.json["id"]]


def test_an_operation_that_fails(resurge: Resurge, database: Callable[..., list[Any]]) -> None:
    # No worker carries this one out; what the recovery worker would write is written here.
    started = resurge("nodes", "fail", "node-3", *WHY, "--yes", "--no-wait").json["id"]

    def fail() -> None:
        time.sleep(0.3)
        database(
            "UPDATE events_operation SET state = 'failed', error = ? WHERE id = ?",
            "its provider is away",
            started.replace("-", ""),
        )

    worker = threading.Thread(target=fail)
    worker.start()
    answer = resurge("operations", "show", started, "--wait")
    worker.join()
    assert answer.code == 1
    assert answer.json["state"] == "failed"
    assert answer.err == "resurge: node.fail of node-3 failed: its provider is away\n"


def test_the_policy(resurge: Resurge) -> None:
    changed = resurge("policy", "set", "trending", "--planner", "optimal", "--correlation-window", "30", *WHY)
    assert changed.code == 0
    assert (changed.json["planner"], changed.json["correlation_window"]) == ("optimal", 30.0)
    back = resurge("policy", "set", "trending", "--correlation-window", "default", *WHY).json
    assert (back["planner"], back["correlation_window"]) == ("optimal", None)
    assert resurge("policy", "set", "trending", *WHY).code == 2
    assert resurge("policy", "set", "trending", "--planner", "luck", *WHY).code == 2
    refused = resurge("policy", "set", "trending", "--correlation-threshold", "2.5", *WHY)
    assert refused.code == 1
    assert refused.err == "resurge: correlation_threshold: A valid integer is required.\n"


def test_priorities(resurge: Resurge) -> None:
    set_ = resurge("queries", "prioritise", "hashtags", "O3[0]=10", "O4[0]=1", *WHY)
    assert {row["partition"]: row["priority"] for row in set_.json} == {"O3[0]": 10, "O4[0]": 1}
    refused = resurge("queries", "prioritise", "hashtags", "O3[0]=11", *WHY)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "O3[0]" in refused.err
    assert resurge("queries", "prioritise", "hashtags", "O99[0]=1", *WHY).code == 6
    for wrong in ("O3[0]", "=3", "O3[0]=high", "O3[0]=-1"):
        assert resurge("queries", "prioritise", "hashtags", wrong, *WHY).code == 2
    assert resurge("queries", "prioritise", "hashtags", "O3[0]=1", "O3[0]=2", *WHY).code == 2


def test_a_topology_from_a_file_to_its_end(
    resurge: Resurge, rest: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "words.yaml"
    file.write_text(SPEC.format(name="words"))
    created = resurge("topologies", "create", "-f", str(file), *WHY)
    assert (created.code, created.err) == (0, "")
    assert (created.json["name"], created.json["version"], created.json["status"]) == ("words", 1, "draft")
    twice = resurge("topologies", "create", "-f", str(file), *WHY)
    assert twice.code == 1
    assert "there is a topology 'words' already" in twice.err
    other = json.dumps(spec_of("words"))
    file.write_text(other)
    assert resurge("topologies", "update", "words", "-f", str(file), *WHY).json["version"] == 2
    deployed = resurge("topologies", "deploy", "words", *WHY, "--no-wait")
    assert (deployed.json["kind"], deployed.json["target"]) == ("topology.deploy", "words")
    assert resurge("topologies", "delete", "words", *WHY, "--yes").code == 1, "it is deployed"
    assert resurge("topologies", "undeploy", "words", *WHY, "--yes", "--no-wait").code == 0
    assert rest.get("topologies/words/").json()["status"] == "stopping"


def test_deploying_from_a_file_makes_it_or_gives_it_a_version(resurge: Resurge, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(SPEC.format(name="one"))
    first = resurge("topologies", "deploy", "-f", str(file), *WHY, "--no-wait")
    assert (first.code, first.json["target"], first.json["parameters"]["version"]) == (0, "one", 1)
    again = resurge("topologies", "deploy", "one", "-f", str(file), *WHY, "--no-wait")
    assert again.code == 1
    assert "undeploy it before you deploy it" in again.err, "the specification is the one that it has"
    assert resurge("topologies", "deploy", "one", "-f", str(file), "--rate", "5", *WHY).code == 2
    assert resurge("topologies", "deploy", "-f", str(file), "--continue", *WHY).code == 2
    named = resurge(
        "topologies", "create", "two", "-f", str(file), "--rate", "5", "--input", "t.parquet", *WHY
    )
    source = named.json["spec"]["operators"][0]["params"]
    assert (named.json["name"], source["rate"], source["path"]) == (
        "two",
        5,
        str(Path("t.parquet").absolute()),
    )
    rated = ("--arrivals", "rates.csv", "--speedup", "60", "--pipeline", "top-pages")
    source = resurge("topologies", "create", "pages", *rated, *WHY).json["spec"]["operators"][0]["params"]
    assert (source["arrivals"], source["speedup"]) == (str(Path("rates.csv").absolute()), 60.0)
    assert "rate" not in source
    assert resurge("topologies", "create", "pages", *rated, "--speedup", "0", *WHY).code == 2
    assert "--arrivals" in resurge("topologies", "deploy", "two", "--speedup", "2", *WHY).err
    never = resurge("topologies", "deploy", "two", "--continue", *WHY)
    assert (never.code, "has never been deployed" in never.err) == (1, True)
    assert resurge("topologies", "delete", "two", *WHY, "--yes", "--outputs", "burn").code == 2
    assert resurge("topologies", "delete", "two", *WHY, "--yes", "--outputs", "remove").code == 0
    (deleted,) = resurge("audit", "list", "--action", "topology.delete", "--target", "two").json
    assert deleted["before"]["outputs"] == "remove"
    assert resurge("topologies", "show", "two").code == 6
    assert "-f one.yaml" in resurge("topologies", "deploy", "one.yaml", *WHY).err
    unknown = resurge("topologies", "create", "--pipeline", "nothing", *WHY)
    assert unknown.code == 1
    assert "pipelines: hashtags" in unknown.err


def test_a_creation_whose_answer_is_lost_happens_once(
    resurge: Resurge, wire: Wire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    file = tmp_path / "three.yaml"
    file.write_text(SPEC.format(name="three"))
    asked = ("topologies", "create", "-f", str(file), *WHY)
    wire.lose_answer()
    created = resurge(*asked, RESURGE_URL=wire.url)
    assert (created.code, created.json["version"], wire.lost) == (0, 1, 1)
    assert len(resurge("audit", "list", "--action", "topology.create", "--target", "three").json) == 1
    assert resurge("topologies", "delete", "three", *WHY, "--yes").code == 0
    # A script that is run again with its own key creates and starts nothing twice.
    of_file = ("-f", str(file), *WHY, "--no-wait", "--idempotency-key")
    named = ("topologies", "deploy", "four", *of_file, "release-8")
    for repeated in (("topologies", "deploy", *of_file, "release-7"), named):
        first = resurge(*repeated)
        assert first.code == 0
        assert resurge(*repeated).json["id"] == first.json["id"]
    file.write_text(json.dumps(spec_of("four")))
    other = resurge(*named)
    assert (other.code, "was used for another request" in other.err) == (1, True)
    unnamed = resurge("topologies", "deploy", *of_file, "release-7")
    assert unnamed.err.endswith("use a new key\n")
    # Keys of a pipeline may be long and differ at their end.
    for name, run in (("five", "7"), ("six", "8")):
        file.write_text(SPEC.format(name=name))
        long = f"{'pipelines-of-the-team/' * 5}release-run-{run}"
        assert resurge("topologies", "deploy", *of_file, long).code == 0


def test_going_back_to_a_checkpoint(resurge: Resurge, database: Callable[..., list[Any]]) -> None:
    back = ("topologies", "restore", "trending")
    assert resurge(*back, "5311", *WHY, "--yes").code == 6
    refused = resurge(*back, "5310", *WHY, "--yes")
    assert refused.code == 1
    assert "checkpoint 5310 is not in storage" in refused.err
    database("UPDATE checkpoints_checkpoint SET stored = 1 WHERE epoch = 5300")
    asked = resurge(*back, "5300", *WHY, "--yes", "--no-wait")
    assert (asked.code, asked.json["parameters"]["checkpoint"]) == (0, 5300)


def test_every_fault_of_a_specification_is_told(resurge: Resurge, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    answer = resurge("topologies", "create", "-f", str(file), *WHY)
    assert (answer.code, answer.out) == (1, "")
    first, *problems = answer.err.splitlines()
    assert first == f"resurge: refused, {len(problems)} problems:"
    assert len(problems) > 1
    assert all(re.match(r"  line \d+, operators", line) for line in problems), answer.err
    file.write_text("a: [")
    broken = resurge("topologies", "create", "-f", str(file), *WHY)
    assert broken.code == 1
    assert "line" in broken.err


def test_a_specification_is_checked_before_anything_is_changed(
    resurge: Resurge, rest: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = newest(rest)
    file = tmp_path / "checked.yaml"
    file.write_text(SPEC.format(name="checked"))
    right = resurge("topologies", "validate", str(file))
    assert (right.code, right.err) == (0, "")
    assert right.json["valid"]
    assert right.json == rest.post("topologies/validate/", json={"spec": file.read_text()}).json()
    table = resurge("topologies", "validate", str(file), "-o", "table")
    assert "checked" in table.out
    assert "note:" not in table.out
    file.write_text(f"{SPEC.format(name='checked')}{QUERY}")
    noted = resurge("topologies", "validate", str(file), "-o", "table")
    assert noted.code == 0
    assert "random() may give something else each time" in " ".join(noted.out.split())
    file.write_text(WRONG)
    wrong = resurge("topologies", "validate", str(file))
    faults = wrong.json["problems"]
    assert (wrong.code, wrong.json["valid"], len(faults) > 1) == (1, False, True)
    assert wrong.err == f"resurge: {file} is not valid: {len(faults)} faults\n"
    told = resurge("topologies", "validate", str(file), "-o", "table").out
    for fault in faults:
        assert fault["path"] in told
        assert fault["message"] in told
        assert str(fault["line"]) in told
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert resurge("topologies", "validate", "-").json == wrong.json
    file.write_text("a: [")
    broken = resurge("topologies", "validate", str(file))
    assert (broken.code, broken.err) == (1, f"resurge: {file} is not valid: 1 fault\n")
    assert resurge("topologies", "validate", str(tmp_path / "missing")).code == 2
    assert newest(rest) == before


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"\xff\xfe\x00", "cannot be read as text")]
)
def test_a_file_that_is_none(resurge: Resurge, tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "none.yaml"
    file.write_bytes(content)
    answer = resurge("topologies", "create", "-f", str(file), *WHY)
    assert answer.code == 2
    assert said in answer.err
    assert resurge("topologies", "create", "-f", str(tmp_path / "missing"), *WHY).code == 2


def test_tokens(resurge: Resurge, tmp_path: Path, variables: dict[str, str]) -> None:
    assert resurge("tokens", "create", *WHY).code == 2, "where to?"
    file = tmp_path / "ci.token"
    made = resurge("tokens", "create", "--to", str(file), "--lifetime", "30d", *WHY)
    assert made.code == 0
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in made.out + made.err
    key = made.json["token_key"]
    assert token.startswith(key)
    assert made.json["expiry"] is not None
    assert resurge("tokens", "create", "--to", str(file), *WHY).code == 2, "never over a file that is there"
    assert resurge("whoami", RESURGE_TOKEN=token).json["role"] == "operator"
    assert key in [row["token_key"] for row in resurge("tokens", "list").json]
    assert resurge("tokens", "revoke", key, *WHY, "--yes").code == 0
    assert resurge("whoami", RESURGE_TOKEN=token).code == 4
    shown = resurge("tokens", "create", "--show", "--lifetime", "never", *WHY).json
    assert shown["expiry"] is None
    assert resurge("whoami", RESURGE_TOKEN=shown["token"]).code == 0
    refused = tmp_path / "refused.token"
    assert resurge("tokens", "create", "--to", str(refused), *WHY, RESURGE_TOKEN="0" * 64).code == 4
    assert not refused.exists()
    for wrong in ("30", "0d", "soon"):
        assert resurge("tokens", "create", "--show", "--lifetime", wrong, *WHY).code == 2


def test_signing_in_keeps_a_token_that_works(
    resurge: Resurge, variables: dict[str, str], tokens: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("0" * 64)
    url, config = variables["RESURGE_URL"], Path(variables["RESURGE_CONFIG"])
    signed_out = {"RESURGE_URL": "", "RESURGE_TOKEN": ""}
    assert resurge("whoami", **signed_out).code == 2
    wrong = resurge("login", url, "--token-file", str(file), **signed_out)
    assert wrong.code == 4
    assert not config.exists()
    file.write_text(tokens["viewer"] + "\n")
    done = resurge("login", url + "/", "--token-file", str(file), **signed_out)
    assert (done.code, done.err) == (0, "")
    assert done.json == {"username": "viewer", "role": "viewer", "url": url, "configured_in": str(config)}
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert resurge("whoami", **signed_out).json == done.json
    assert resurge("login", url, **signed_out).code == 2, "there is no terminal to ask on"
    assert resurge("logout", **signed_out).code == 0
    assert not config.exists()
    assert resurge("logout", **signed_out).code == 0


def test_the_server_refuses_a_what_if_while_something_is_down(resurge: Resurge) -> None:
    answer = resurge("what-if", "--rack", "rack-a")
    assert answer.code == 1
    assert "are down now" in answer.err
    wrong = resurge("what-if", "--rack", "rack-a", "--priority", "hashtags=3")
    assert wrong.code == 2
    unknown = resurge("what-if", "--rack", "rack-a", "--planner", "luck")
    assert unknown.code == 1
    assert "there is no planner 'luck'" in unknown.err
