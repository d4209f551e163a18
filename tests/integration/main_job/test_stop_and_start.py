"""What `make up` finds after `make down`: every topology goes on from its newest complete checkpoint.

The installation is stopped and started by the same command, first while all is well and then in the middle of
a recovery. Nothing that was given out before may be missing, come twice, or be put away.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.stack import Stack
from spark_jobs.sinks.writing import MARK
from tests.integration.main_job.course import advanced, exact, healthy, incidents, lose, opened, used

pytestmark = pytest.mark.integration


def stopped_and_started(stack: Stack) -> None:
    stack.down()
    assert stack.processes() == []
    stack.up()


def went_on(stack: Stack, before: dict[str, Any]) -> None:
    """With what was there, from the newest checkpoint."""
    advanced(stack, 5)
    after = healthy(stack)
    assert after["deployed_at"] == before["deployed_at"]
    assert after["checkpoint_epoch"] >= before["checkpoint_epoch"] > 0
    assert after["committed_epoch"] > before["committed_epoch"]
    assert {path.name for path in (stack.home / "outputs").iterdir()} == {MARK, "hashtags"}
    exact(stack)


@pytest.mark.long
def test_the_same_command_goes_on_where_the_installation_was_stopped(stack: Stack) -> None:
    before, told = healthy(stack), incidents(stack)
    stopped_and_started(stack)
    went_on(stack, before)
    assert incidents(stack) == told


def test_it_goes_on_with_the_recovery_in_which_the_installation_was_stopped(stack: Stack) -> None:
    before, told = healthy(stack), incidents(stack)
    lose(stack, *used(stack)[:2])
    assert len(opened(stack)) == 1
    stopped_and_started(stack)
    went_on(stack, before)
    assert incidents(stack) == told + 1
