"""Webhooks: created, changed only in the version that was read, tested, and their deliveries."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli import client
from harness.eventually import eventually
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.running import Answer, Wire

WHY = ("--reason", "a test")
ADDRESS = "https://hooks.example.org/T0/s3cret"
Hook = Callable[..., Answer]


@pytest.fixture
def hooks(resurge: Resurge, tokens: dict[str, str]) -> Hook:
    """`resurge webhooks ...` as an administrator."""

    def run(*arguments: str, **changed: str) -> Answer:
        return resurge("webhooks", *arguments, **{"RESURGE_TOKEN": tokens["administrator"], **changed})

    return run


@pytest.fixture
def pager(hooks: Hook, rest: httpx.Client) -> Iterator[dict[str, Any]]:
    """A webhook that gets incidents of `hashtags`."""
    made = hooks(
        "create", "pager", ADDRESS, "--kind", "incident.opened", "--kind", "node.lost",
        "--topology", "hashtags", "--show", *WHY,
    )  # fmt: skip
    assert (made.code, made.err) == (0, "")
    yield made.json
    rest.delete(f"webhooks/{made.json['id']}/?reason=over")


def test_a_secret_is_shown_once_or_goes_into_a_file(
    hooks: Hook, rest: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("create", "chat", ADDRESS, "--kind", "incident.closed")
    assert hooks(*asked, *WHY).code == 2, "where to?"
    assert hooks(*asked, "--show").code == 2, "why?"
    file = tmp_path / "chat.secret"
    made = hooks(*asked, "--to", str(file), *WHY)
    assert (made.code, made.err) == (0, "")
    secret = file.read_text().strip()
    assert secret.startswith("whsec_")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in made.out
    assert (made.json["name"], made.json["topologies"], made.json["file"]) == ("chat", [], str(file))
    assert hooks("show", "chat").json == rest.get(f"webhooks/{made.json['id']}/").json()
    again = hooks("rotate-secret", "chat", "--overlap-hours", "1", "--show", *WHY)
    assert again.code == 0
    assert again.json["secret"].startswith("whsec_")
    assert again.json["secret"] != secret
    taken = hooks(*asked, "--to", str(tmp_path / "other"), *WHY)
    assert (taken.code, "there is a webhook 'chat' already" in taken.err) == (1, True)
    assert not (tmp_path / "other").exists()
    assert hooks("delete", "chat", *WHY, "--yes").err == "webhook chat is deleted\n"
    assert hooks("show", "chat").code == 6


def test_lists_and_tables(hooks: Hook, rest: httpx.Client, pager: dict[str, Any]) -> None:
    assert hooks("list").json == rest.get("webhooks/").json()["results"]
    assert [row["name"] for row in hooks("list", "--enabled", "--search", "pag").json] == ["pager"]
    assert hooks("list", "--disabled").json == []
    table = hooks("list", "-o", "table").out
    assert "● enabled" in table
    assert "https://hooks.example.org" in table
    assert "s3cret" not in table, "other people may see the screen"
    shown = hooks("show", str(pager["id"]), "-o", "table").out
    assert ADDRESS in shown
    assert "incident.opened, node.lost" in shown


def test_an_address_from_standard_input(
    hooks: Hook, pager: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "address"
    for content, code in ((f"{ADDRESS}2\n", 0), ("\n", 2)):
        file.write_text(content)
        with file.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert hooks("update", "pager", "--address", "-", *WHY).code == code
    assert hooks("show", "pager").json["url"] == f"{ADDRESS}2"


def test_what_is_not_named_stays(hooks: Hook, pager: dict[str, Any]) -> None:
    more = hooks(
        "update", "pager", "--add-kind", "problem.raised", "--remove-kind", "node.lost", "--disable", *WHY
    )
    assert (more.code, more.err) == (0, "")
    changed = {"kinds": ["incident.opened", "problem.raised"], "enabled": False}
    apart = {"secret", "updated_at", *changed}
    assert {name: more.json[name] for name in changed} == changed
    assert {name: pager[name] for name in pager if name not in apart} == {
        name: more.json[name] for name in more.json if name not in apart
    }
    both = hooks("update", "pager", "--add-topology", "trending", "--enable", *WHY).json
    assert (both["topologies"], both["enabled"]) == (["hashtags", "trending"], True)
    one = hooks("update", "pager", "--remove-topology", "hashtags", *WHY).json
    assert one["topologies"] == ["trending"]
    last = hooks("update", "pager", "--remove-topology", "trending", *WHY)
    assert (last.code, "--all-topologies" in last.err) == (2, True), "an empty list would mean all of them"
    assert hooks("update", "pager", "--all-topologies", *WHY).json["topologies"] == []


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ((), 2, "say what to change"),
        (("--remove-kind", "plan.applied"), 2, "it has no plan.applied to remove"),
        (("--all-topologies", "--add-topology", "trending"), 2, "goes with neither"),
        (("--add-kind", "nonsense"), 1, "kinds"),
        (("--remove-kind", "node.lost", "--remove-kind", "incident.opened"), 1, "kinds"),
        (("--address", "ftp://example.org"), 1, "url"),
    ],
    ids=str,
)
def test_changes_that_cannot_be(
    hooks: Hook, pager: dict[str, Any], change: tuple[str, ...], code: int, said: str
) -> None:
    refused = hooks("update", "pager", *change, *WHY)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.err


@pytest.mark.parametrize("command", [("update", "pager", "--disable"), ("delete", "pager", "--yes")])
def test_what_was_changed_meanwhile_is_not_overwritten(
    hooks: Hook,
    rest: httpx.Client,
    pager: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    tagged = client.Rest.tagged
    path = f"webhooks/{pager['id']}/"

    def overtaken(self: client.Rest, asked: str) -> Any:
        seen = tagged(self, asked)
        assert rest.patch(path, json={"kinds": ["plan.applied"], "reason": "faster"}).status_code == 200
        return seen

    monkeypatch.setattr(client.Rest, "tagged", overtaken)
    late = hooks(*command, *WHY)
    assert (late.code, "webhook pager was changed meanwhile" in late.err) == (1, True)
    assert rest.get(path).json()["enabled"] is True


def test_deleting_needs_a_yes(hooks: Hook, pager: dict[str, Any]) -> None:
    unsure = hooks("delete", "pager", *WHY)
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    assert hooks("show", "pager").code == 0


@pytest.mark.parametrize(
    ("state", "status", "error", "code"), [("succeeded", 204, "", 0), ("given_up", 500, "answered 500", 1)]
)
def test_a_test_is_followed_to_its_end(
    hooks: Hook,
    rest: httpx.Client,
    pager: dict[str, Any],
    database: Callable[..., list[Any]],
    state: str,
    status: int,
    error: str,
    code: int,
) -> None:
    path = f"webhooks/{pager['id']}/deliveries/"

    def deliver() -> None:
        # No worker sends it; what the worker would write is written here.
        eventually(lambda: rest.get(path).json()["results"], "a delivery")
        database(
            "UPDATE webhooks_delivery SET state = ?, status = ?, error = ?, ended_at = created_at",
            state,
            status,
            error,
        )

    worker = threading.Thread(target=deliver)
    worker.start()
    tried = hooks("test", "pager", *WHY)
    worker.join()
    assert tried.code == code
    assert (tried.json["state"], tried.json["status"]) == (state, status)
    assert tried.err == (f"resurge: could not test webhook pager: {error}\n" if code else "")
    (row,) = hooks("deliveries", "pager", "--state", state, "--kind", "webhook.test").json
    assert tried.json.items() >= row.items()
    shown = hooks("delivery", "pager", row["id"], "-o", "table")
    assert "webhook.test" in shown.out
    assert hooks("delivery", "pager", row["id"]).json == rest.get(f"{path}{row['id']}/").json()
    assert hooks("deliveries", "pager", "--state", "pending").json == []
    again = hooks("redeliver", "pager", row["id"], *WHY)
    assert (again.code, "request a new one" in again.err) == (1, True)


def test_a_test_whose_answer_is_lost_is_sent_once(
    hooks: Hook, pager: dict[str, Any], wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    wire.lose_answer()
    # By number: the first request is the one whose answer is lost.
    asked = hooks("test", str(pager["id"]), "--no-wait", *WHY, RESURGE_URL=wire.url)
    assert (asked.code, asked.json["state"], wire.lost) == (0, "pending", 1)
    assert [row["id"] for row in hooks("deliveries", "pager").json] == [asked.json["id"]]
    late = hooks("test", "pager", "--wait-timeout", "0.3", *WHY)
    assert late.code == 5
    assert f"it continues; see `resurge webhooks delivery {pager['id']} " in late.err


def test_only_for_administrators(resurge: Resurge) -> None:
    refused = resurge("webhooks", "list")
    assert (refused.code, refused.out) == (4, "")
    assert "administrator role" in refused.err
