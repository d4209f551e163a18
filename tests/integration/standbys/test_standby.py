"""A standby takes over on real processes, without waiting for a provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.stack import Stack
from tests.data import shared_data
from tests.integration.main_job.course import (
    EPOCH,
    FIELDS,
    advanced,
    exact,
    healthy,
    lose,
    standby_of,
    stopped,
    used,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", autouse=True)
def deployed(stack: Stack) -> Iterator[None]:
    stack.deploy("hashtags", input=shared_data("tweets.parquet"), rate=500, **FIELDS)
    stack.rest.patch("topologies/hashtags/policy/", {"method": "blocking", "reason": "the slowest method"})
    healthy(stack)
    yield
    stopped(stack)


def test_a_standby_has_the_newest_checkpoint_and_takes_over(stack: Stack) -> None:
    standby = standby_of(stack)
    requested = stack.nodes("requested").keys()
    assert standby not in used(stack)
    states = stack.home / "nodes" / standby / "state" / "hashtags"
    stack.wait_for(lambda: list(states.glob("*/O*/*.arrow")), "files that were fetched ahead", timeout=60)
    (lost, *_) = used(stack)
    lose(stack, lost)
    healthy(stack)
    assert standby in used(stack)
    assert lost not in used(stack)
    nodes = stack.nodes()
    assert not nodes[standby]["standby"]
    (asked,) = stack.nodes("requested").keys() - requested
    assert nodes[asked]["standby"], "the next node takes its place"
    advanced(stack, round(12 / EPOCH))
    exact(stack)
