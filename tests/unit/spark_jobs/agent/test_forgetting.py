"""Which deployments are over, and what goes of them. With ZooKeeper: `test_forgetting.py` in
`tests/integration/control_plane`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from coordination.session import CoordinationUnavailableError
from domain.messages import DriverStatus, Former, Plan
from spark_jobs.agent.forgetting import Forgetting, Over, over
from spark_jobs.state.node_home import deployment_home

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


def test_only_what_is_over_goes_once_zookeeper_has_said_so(tmp_path: Path) -> None:
    """Before that, snapshots that wait may be of a deleted topology."""
    said: dict[str, Over] = {}
    asked: list[Collection[str]] = []
    gone: list[str] = []

    def ask(names: Collection[str]) -> dict[str, Over]:
        asked.append(names)
        if not said:
            raise CoordinationUnavailableError("not connected to ZooKeeper")
        return said

    states = {
        (name, deployed): deployment_home(tmp_path, "state", name, deployed)
        for name in ("deleted", "runs")
        for deployed in (3, 7)
    }
    for directory in states.values():
        directory.mkdir(parents=True)
    forgetting = Forgetting(node_home=tmp_path, ask=ask, on_gone=gone.append)
    forgetting.look()
    assert not forgetting.looked.is_set()
    assert all(directory.exists() for directory in states.values())
    said |= {"deleted": Over(7, gone=True), "runs": Over(6)}
    forgetting.look()
    assert forgetting.looked.is_set()
    assert [one for one, directory in states.items() if directory.exists()] == [("runs", 7)]
    assert gone == ["deleted"]
    assert [sorted(names) for names in asked] == [["deleted", "runs"]] * 2
