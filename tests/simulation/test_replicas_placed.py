"""Replicas that the coordinator places take over, are withdrawn and are lost, while recoveries go on; in the
end it takes each partition to be where it is, and every query is available."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.examples import examples
from tests.simulation.replica_world import WANTED, run_placed

FIRST, SCHEDULES = 10_010, 40
"""The first third has everything that is wanted."""


def test_coordinator_and_driver_agree_where_partitions_are() -> None:
    counts: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + examples(SCHEDULES)):
        world = run_placed(seed)
        counts.update(world.counts)
        counts["incidents"] += len(world.incidents)
    for what in WANTED:
        assert counts[what] > 0, (what, counts)


@pytest.mark.parametrize("seed", [0, 10, 22, 145, 181, 1119, 88, 990_052])
def test_schedules_that_once_failed(seed: int) -> None:
    """10 and 145: a takeover became known after its node was lost, and plans named that node. 0 and 22: the
    report of an epoch under a new plan made takeovers that this had ended look like later ones. 181: a plan
    of an aborted incident that no driver got counted as the newest. 1119: the world itself thought no
    partition to cost more than 100 %, on nodes that have more. 88, 990052: what replicas had taken over on a
    drained node stayed there."""
    run_placed(seed)
