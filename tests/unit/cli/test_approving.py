"""Approving a plan approves exactly the listed proposals. The server is used by these tests only, since
nothing is proposed afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.unit.cli.conftest import Resurge
from tests.unit.cli.serving import Server, rest_client, tokens_make

WHY = ("--reason", "revenue first")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("approving"), "proposed")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def tokens(server: Server) -> dict[str, str]:
    return tokens_make(server)


@pytest.fixture(scope="module")
def rest(server: Server, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    with rest_client(server, tokens) as client:
        yield client


def test_what_is_proposed_is_approved(resurge: Resurge, rest: httpx.Client) -> None:
    proposal = rest.get("incidents/2/").json()["proposals"]["hashtags"]["proposal"]
    stale = resurge("incidents", "approve", "2", "--proposal", "hashtags-1-1", *WHY)
    assert stale.code == 1
    assert f"what is proposed now is {proposal}" in stale.err
    asked = ("incidents", "approve", "2", "--yes", *WHY, "--idempotency-key", "wave-7")
    done = resurge(*asked)
    assert (done.code, done.err) == (0, "")
    assert (done.json["state"], done.json["parameters"]) == ("succeeded", {"proposals": [proposal]})
    assert resurge(*asked).json == done.json
    again = resurge("incidents", "approve", "2", "--yes", *WHY)
    assert again.code == 1
    assert f"proposal {proposal} was approved by" in again.err
    # What was approved is not applied yet, as no driver answers here: planning anew proposes it once more.
    anew = resurge("incidents", "replan", "2", "--yes", *WHY)
    assert anew.code == 0
    assert rest.get("incidents/2/").json()["proposals"]["hashtags"]["proposal"] != proposal


def test_an_outdated_plan_is_not_approved_silently(resurge: Resurge, rest: httpx.Client) -> None:
    """No worker looks at incidents here, so a changed priority does not change the proposal until an approval
    is carried out."""
    proposal = rest.get("incidents/2/").json()["proposals"]["hashtags"]
    rows = rest.get("topologies/hashtags/queries/?limit=100").json()["results"]
    down = [row["partition"] for row in rows if row["status"] == "failed"]
    left = [partition for partition in down if partition not in proposal["queries"]]
    assert resurge("queries", "prioritise", "hashtags", *(f"{one}=10" for one in left), *WHY).code == 0
    assert (
        resurge("queries", "prioritise", "hashtags", *(f"{one}=1" for one in proposal["queries"]), *WHY).code
        == 0
    )
    refused = resurge("incidents", "approve", "2", "--yes", *WHY)
    assert refused.code == 1
    assert f"{proposal['proposal']} was confirmed, but the situation has changed" in refused.err
    instead = rest.get("incidents/2/").json()["proposals"]["hashtags"]
    assert instead["proposal"] != proposal["proposal"]
