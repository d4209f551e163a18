"""Which deployments are over. With ZooKeeper: `tests/integration/control_plane/test_forgetting.py`."""

from __future__ import annotations

import pytest

from domain.messages import DriverStatus, Former, Plan
from spark_jobs.agent.forgetting import Over, over

NOTHING = Over(-1)


def plan(deployed: int) -> Plan:
    return Plan(generation=deployed + 2, kind="recover", assignment={}, deployed=deployed)


def driver(generation: int) -> DriverStatus:
    return DriverStatus(
        topology="t", pid=1, session="", generation=generation, state="running", head=1, committed=1,
        checkpoint=0, at=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("former", "in_force", "working", "expected"),
    [
        (None, None, None, NOTHING),  # ZooKeeper may have lost its data
        (None, None, driver(4), NOTHING),
        (7, None, None, Over(7, gone=True)),
        (7, None, driver(7), Over(7, gone=True)),  # one that woke up
        (None, plan(8), None, NOTHING),  # a driver of the deployment before may run
        (None, plan(8), driver(7), NOTHING),
        (None, plan(8), driver(8), Over(7)),
        (None, plan(8), driver(12), Over(7)),
        (7, plan(8), None, Over(7)),
        (3, plan(8), driver(7), Over(3)),
        (3, plan(8), driver(9), Over(7)),
        (9, plan(2), None, Over(1)),  # of a database that was begun anew
        (9, plan(2), driver(2), Over(1)),
        (9, plan(0), driver(2), NOTHING),  # of a version that did not name the deployment
        (None, plan(0), driver(2), NOTHING),
    ],
)
def test_the_deployment_in_force_is_never_over(
    former: int | None, in_force: Plan | None, working: DriverStatus | None, expected: Over
) -> None:
    assert over(None if former is None else Former(generation=former), in_force, working) == expected
