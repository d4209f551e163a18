"""Approving a plan: exactly what was listed."""

from __future__ import annotations

import httpx

from tests.unit.cli.conftest import Resurge

WHY = ("--reason", "revenue first")


def test_what_is_proposed_is_approved(resurge: Resurge, rest: httpx.Client) -> None:
    # Other tests share the server and change priorities: what is proposed is to be what fits them now.
    assert resurge("incidents", "replan", "2", "--yes", *WHY).code == 0
    proposal = rest.get("incidents/2/").json()["proposals"]["hashtags"]["proposal"]
    stale = resurge("incidents", "approve", "2", "--proposal", "hashtags-1-1", *WHY)
    assert stale.code == 1
    assert f"what is proposed now is {proposal}" in stale.err
    done = resurge("incidents", "approve", "2", "--yes", *WHY)
    assert (done.code, done.err) == (0, "")
    assert (done.json["state"], done.json["parameters"]) == ("succeeded", {"proposals": [proposal]})
    again = resurge("incidents", "approve", "2", "--yes", *WHY)
    assert again.code == 1
    assert "no plan that waits for a confirmation" in again.err
    # What was approved is not applied yet, as no driver answers here: planning anew proposes it once more.
    anew = resurge("incidents", "replan", "2", "--yes", *WHY)
    assert anew.code == 0
    assert rest.get("incidents/2/").json()["proposals"]["hashtags"]["proposal"] != proposal
