"""What `make up` finds after `make down`: every topology goes on from its newest complete checkpoint.

One installation is stopped and started by the same command, first while all is well and then in the middle of
a recovery. Nothing that was given out before may be missing, come twice, or be put away.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.stack import Stack
from spark_jobs.sources.sample import sample_write

pytestmark = pytest.mark.integration

QUERIES = 15


def well(stack: Stack, *, after: int) -> dict[str, Any]:
    """Every query available and no incident open, some epochs after `after`."""

    def found() -> dict[str, Any] | None:
        row = stack.topology()
        over = all(incident["state"] in ("closed", "aborted") for incident in stack.incidents())
        further = row["committed_epoch"] >= after + 5
        return row if over and further and row["queries_available"] == QUERIES else None

    row = stack.wait_for(found, "15 available queries, no open incident", timeout=240, pause=0.5)
    assert row is not None
    return row


def exact(stack: Stack) -> None:
    for query in json.loads(stack.manage("verify", "hashtags", "--json"))["queries"]:
        faults = {name: query[name] for name in ("missing", "duplicate", "unexpected", "different")}
        assert faults == dict.fromkeys(faults, 0), query
        assert query["found"] == query["expected"] > 0, query


def checkpointed(stack: Stack) -> int:
    def epoch() -> int:
        return int(stack.topology()["checkpoint_epoch"])

    return stack.wait_for(epoch, "a complete checkpoint")


def test_the_same_command_goes_on_where_the_installation_was_stopped(tmp_path: Path) -> None:
    tweets = tmp_path / "tweets.parquet"
    sample_write(tweets)
    variables = {"RESURGE_REPLACEMENT_DELAY": "uniform:5:6"}
    with Stack(
        tmp_path, nodes=3, pipeline="hashtags", input=tweets, rate="1000", variables=variables
    ) as stack:
        well(stack, after=0)
        checkpointed(stack)
        deployed = stack.topology()["deployed_at"]

        stack.down()
        assert stack.processes() == []
        stack.up()
        before = well(stack, after=stack.topology()["committed_epoch"])
        assert before["deployed_at"] == deployed
        assert stack.incidents() == []
        exact(stack)

        # Now in the middle of a recovery: two nodes are lost, and their replacements are on their way.
        checkpoint = checkpointed(stack)
        stack.kill_nodes("node-2", "node-3")
        stack.wait_for(lambda: {"node-2", "node-3"} <= stack.nodes("lost").keys(), "the loss", timeout=30)
        stack.down()
        assert stack.processes() == []
        stack.up()
        after = well(stack, after=before["committed_epoch"])
        assert after["deployed_at"] == deployed
        assert after["checkpoint_epoch"] >= checkpoint
        assert [row["state"] for row in stack.incidents()] == ["closed"]
        assert [path.name for path in (stack.home / "outputs").iterdir()] == ["hashtags"]
        exact(stack)
