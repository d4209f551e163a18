"""Which deployments are over, and what goes of them. With ZooKeeper: `test_forgetting.py` in
`tests/integration/control_plane`."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest

from coordination.session import CoordinationUnavailableError
from domain.messages import DriverStatus, Former, LatestCheckpoint, Plan, Replicas, ShadowStatus
from spark_jobs.agent.forgetting import UNCHANGED_FOR, Forgetting, Over, kept_here, over
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


def in_force() -> Plan:
    return Plan(generation=6, kind="move", assignment={"A[0]": "n1", "B[0]": "n2"}, deployed=4)


def complete(generation: int) -> LatestCheckpoint:
    return LatestCheckpoint(checkpoint=30, generation=generation, completed_at=1.0, size_bytes=1)


def test_a_node_needs_what_runs_there_once_a_checkpoint_proves_that_nothing_else_is() -> None:
    """A replica that acts, that stands by, or that is to be placed keeps its state, too."""
    working = msgspec.structs.replace(
        driver(6),
        acting={"C[0]": "n1"},
        shadows={"D[0]": ShadowStatus(node="n1"), "B[0]": ShadowStatus(node="n3")},
    )
    wanted = Replicas(deployed=4, assignment={"E[0]": "n1", "F[0]": "n2"})
    kept = kept_here("n1", plan=in_force(), driver=working, latest=complete(6), replicas=wanted)
    assert kept == frozenset({"A[0]", "C[0]", "D[0]", "E[0]"})
    elsewhere = kept_here("n3", plan=in_force(), driver=working, latest=complete(6), replicas=None)
    assert elsewhere == frozenset({"B[0]"})


@pytest.mark.parametrize(
    ("plan_", "working", "latest"),
    [
        (None, driver(6), complete(6)),
        (in_force(), None, complete(6)),
        (in_force(), driver(6), None),
        (in_force(), driver(5), complete(5)),  # not applied yet
        (in_force(), driver(6), complete(5)),  # what is restored may start from where partitions were before
        (in_force(), driver(7), complete(6)),
    ],
)
def test_before_that_every_node_keeps_what_it_has(
    plan_: Plan | None, working: DriverStatus | None, latest: LatestCheckpoint | None
) -> None:
    assert kept_here("n1", plan=plan_, driver=working, latest=latest, replicas=None) is None


def test_what_partitions_left_that_are_elsewhere_goes(tmp_path: Path) -> None:
    """Not what was written lately, was only fetched ahead, is of a copy, of another deployment or topology,
    or of a partition that runs here."""
    old = time.time() - UNCHANGED_FOR - 60

    def filled(path: str, *files: str, age: float = old) -> Path:
        directory = tmp_path / path
        directory.mkdir(parents=True)
        for name in files:
            (directory / name).touch()
        os.utime(directory, (age, age))
        return directory

    gone = [
        filled("state/t/4/A-0", "30.manifest", "30.1.state.arrow"),
        filled("buffers/t/4/A-0/B-0", "31.arrow").parent,
    ]
    os.utime(gone[1], (old, old))
    stays = [
        filled("state/t/4/B-0", "30.manifest"),
        filled("state/t/4/C-0", "30.manifest", age=time.time()),
        filled("state/t/4/D-0", "30.1.state.arrow"),
        filled("state/t/4/A~-0", "30.manifest"),
        filled("state/t/4/A?-0", "30.manifest"),
        filled("state/t/5/A-0", "30.manifest"),
        filled("state/u/4/A-0", "30.manifest"),
        filled("buffers/t/4/C-0/D-0", "31.arrow", age=time.time()),
        filled("snapshots/t/30.6.0.4", "30.manifest"),
        filled("keys/t/4/A-0", "30.manifest"),
    ]
    said = {"t": Over(3, of=4), "u": Over(3, of=4)}
    forgetting = Forgetting(node_home=tmp_path, ask=lambda _: said, on_gone=lambda _: None)
    for kept, there in ((None, gone), (frozenset({"A[0]", "B[0]"}), gone), (frozenset({"B[0]"}), [])):
        said["t"] = Over(3, of=4, kept=kept)
        forgetting.look()
        assert [path for path in gone if path.exists()] == there
    assert [path for path in stays if not path.exists()] == []
