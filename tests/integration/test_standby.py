"""A standby takes over on real processes, without waiting for a provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.stack import Stack
from tests.data import shared_data
from tests.integration.main_job.course import EPOCH, FIELDS, advanced, exact, healthy, lose, used

pytestmark = pytest.mark.integration

LATE = {"RESURGE_REPLACEMENT_DELAY": "uniform:1000:1001"}
"""No replacement comes within the test."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    tweets = shared_data("tweets.parquet")
    with Stack(tmp_path_factory.mktemp("standby"), nodes=2, standbys=1, variables=LATE) as made:
        made.deploy("hashtags", input=tweets, rate=500, **FIELDS)
        made.rest.patch("topologies/hashtags/policy/", {"method": "blocking", "reason": "the slowest method"})
        healthy(made)
        yield made


def test_a_standby_has_the_newest_checkpoint_and_takes_over(stack: Stack) -> None:
    (standby,) = (name for name, row in stack.nodes("alive").items() if row["standby"])
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
    (asked,) = (row for row in nodes.values() if row["state"] == "requested")
    assert asked["standby"], "the next node takes its place"
    advanced(stack, round(12 / EPOCH))
    exact(stack)
