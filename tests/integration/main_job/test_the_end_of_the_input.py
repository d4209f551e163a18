"""The last of the main job: what has been read to its end is complete, and stays complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.stack import Stack
from spark_jobs.sinks.committed import Span, committed_read
from tests.data import shared_data
from tests.integration.main_job.course import EPOCH, exact, operation_ended

pytestmark = pytest.mark.integration


def test_a_forced_checkpoint_and_the_end_of_the_input(stack: Stack) -> None:
    """An operator asks for a checkpoint; undeploying and deploying again keeps the earlier outputs aside."""
    before = stack.topology()["checkpoint_epoch"]
    asked = stack.rest.post("topologies/hashtags/checkpoint/", {"reason": "an operator's"})
    ended = operation_ended(stack, asked["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", "")
    stack.wait_for(lambda: stack.topology()["checkpoint_epoch"] > before, "the checkpoint", timeout=30)
    # There is one every few seconds anyway: this one says who asked for it.
    taken = stack.rest.get("topologies/hashtags/checkpoints/")["results"]
    assert [row["requested_by"] for row in taken if row["requested_by"]] == [ended["requested_by"]]
    outputs = stack.home / "outputs" / "hashtags"
    # What was compared was read from these, too.
    stack.wait_for(lambda: len(spans(outputs)) > 3, "spans of several epochs", timeout=60)
    stack.rest.post("topologies/hashtags/undeploy/", {"reason": "test"})
    stack.wait_for_status("stopped")
    tweets = shared_data("tweets.parquet")
    stack.deploy("hashtags", input=tweets, rate=5_000, limit=50_000, epoch_interval=EPOCH)
    stack.wait_for_status("completed", timeout=180)
    exact(stack)
    assert list((stack.home / "outputs").glob("hashtags.until-*"))


def spans(outputs: Path) -> list[Span]:
    committed = committed_read(outputs)
    return list(committed.spans) if committed is not None else []
