"""Shell completion: commands, options, and names from the server."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.browser.servers import free_port
from tests.unit.cli.conftest import Resurge

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(resurge: Resurge, capsys: pytest.CaptureFixture[str]) -> Complete:
    """The completions that bash gets for the last word of a line."""

    def run(*words: str, **changed: str) -> list[str]:
        # The shell passes words with quotes where they are needed.
        line = " ".join(f"'{word}'" if set(word) & set("[]= ") else word for word in ("resurge", *words))
        asked = {"_RESURGE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
        with pytest.raises(SystemExit) as end:
            resurge(**asked, **changed)
        out, err = capsys.readouterr()
        assert (end.value.code, err) == (0, "")
        return [text.partition(",")[2] for text in out.splitlines() if text]

    return run


def test_commands_and_options(complete: Complete) -> None:
    assert complete("no") == ["nodes"]
    assert complete("nodes", "d") == ["drain"]
    assert "--idempotency-key" in complete("nodes", "drain", "--i")
    assert complete("policy", "set", "x", "--rollback", "") == ["ancestors", "global"]
    assert complete("topologies", "val") == ["validate"]
    assert complete("incidents", "exp") == ["export"]
    assert complete("incidents", "export", "1", "--format", "") == ["json", "html", "md"]
    assert complete("webhooks", "de") == ["delete", "deliveries", "delivery"]
    assert complete("webhooks", "create", "x", "-", "--kind", "incident.o") == ["incident.opened"]
    assert "node.lost" not in complete("events", "list", "--kind", "node.lost", "--kind", "node.")
    assert complete("operations", "list", "--state", "f") == ["failed"]
    assert complete("audit", "list", "--channel", "") == ["page", "rest", "admin", "cli", "system"]


def test_names_of_the_server(complete: Complete) -> None:
    nodes = complete("nodes", "show", "node-1")
    assert nodes[0] == "node-1"
    assert "node-2" not in nodes
    assert "hashtags" in complete("topologies", "deploy", "")
    assert complete("topologies", "show", "hash") == ["hashtags"]
    assert complete("incidents", "approve", "") == ["2", "1"]
    assert complete("queries", "prioritise", "hashtags", "O1[") == ["O1[0]="]
    assert complete("what-if", "--rack", "") == ["rack-a", "rack-b"]
    assert "node-1" not in complete("what-if", "--node", "node-1", "--node", "node-")
    assert "trending" in complete("topologies", "create", "--pipeline", "t")
    assert complete("audit", "list", "--actor", "ki") == ["kim"]
    assert "topology.policy" in complete("audit", "list", "--action", "topology.")


def test_names_of_webhooks_are_for_administrators(
    complete: Complete, tokens: dict[str, str], rest: httpx.Client
) -> None:
    body = {"name": "beeper", "url": "https://hooks.example.org/", "kinds": ["node.lost"], "reason": "a test"}
    made = rest.post("webhooks/", json=body).json()
    try:
        delivery = rest.post(f"webhooks/{made['id']}/test/", json={"reason": "a test"}).json()
        administrator = {"RESURGE_TOKEN": tokens["administrator"]}
        assert complete("webhooks", "show", "b", **administrator) == ["beeper"]
        assert complete("webhooks", "show", "b") == []
        assert complete("webhooks", "delivery", "beeper", "", **administrator) == [delivery["id"]]
        assert complete("webhooks", "redeliver", "missing", "", **administrator) == []
    finally:
        rest.delete(f"webhooks/{made['id']}/?reason=over")


@pytest.mark.parametrize("changed", [{"RESURGE_TOKEN": "0" * 64}, {"RESURGE_URL": "", "RESURGE_TOKEN": ""}])
def test_no_names_and_no_complaint(complete: Complete, changed: dict[str, str]) -> None:
    assert complete("nodes", "show", "", **changed) == []
    assert complete("nodes", "show", "", RESURGE_URL=f"http://127.0.0.1:{free_port()}") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(resurge: Resurge, shell: str) -> None:
    script = resurge("completion", shell)
    assert script.code == 0
    assert f"_RESURGE_COMPLETE={shell}_complete" in script.out
