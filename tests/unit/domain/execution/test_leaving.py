"""The checkpoint that a topology leaves behind when it is undeployed, and when it stops without."""

from __future__ import annotations

import pytest
from msgspec import structs

from domain.execution.checkpoints import UPLOAD_TIMEOUT
from domain.execution.epoch_machine import Recorded
from domain.execution.instructions import End, Instruction, PlanEpochs, StartReplay
from domain.execution.job import RunJob
from domain.execution.progress import Position
from tests.unit.domain.execution.epoch_shell import Shell, ack, chain

STOPPED = End("stopped")


def jobs(told: list[Instruction]) -> list[RunJob]:
    return [one for one in told if isinstance(one, RunJob)]


def running(deterministic: bool = True) -> Shell:
    """With one epoch committed, and no checkpoint."""
    shell = Shell(chain(deterministic), Recorded())
    shell.turn()
    return shell


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("paused", [True, False])
def test_what_is_committed_is_in_a_checkpoint_when_it_ends(paused: bool, deterministic: bool) -> None:
    shell = running(deterministic)
    attempt = shell.machine._attempt() + 1 if not deterministic else 0
    shell.acks = [ack(partition, 1, attempt) for partition in shell.topology.partitions]
    told = shell.turn(at=2.0, stopped=True, paused=paused)
    (job,) = jobs(told)
    assert (job.lane, job.checkpoint) == (None, 1)
    assert STOPPED not in told
    assert shell.machine.checkpoints.latest == 1
    assert shell.turn(at=2.1, stopped=True, paused=paused) == [STOPPED]


def test_epochs_that_are_due_are_left_for_later() -> None:
    """The topology goes on with them when it is deployed again; it may lag far behind."""
    homes = {"S[0]": "n1", "A[0]": "n1"}
    shell = Shell(chain(), Recorded(head=50, position=Position(10), generation=1, homes=homes))
    shell.turn(paused=True)
    committed = shell.machine.tracker.committed
    assert committed < shell.head
    told = shell.turn(at=2.0, stopped=True)
    assert [one.checkpoint for one in jobs(told)] == [committed]
    assert not [one for one in told if isinstance(one, PlanEpochs | StartReplay)]
    assert shell.turn(at=2.1, stopped=True) == [STOPPED]
    assert shell.machine.tracker.committed == committed == shell.machine.checkpoints.latest


def test_it_ends_at_once_where_all_is_in_a_checkpoint() -> None:
    shell = Shell(chain(), Recorded())
    shell.turn(at=20.0)
    assert shell.machine.checkpoints.latest == shell.machine.tracker.committed == 1
    assert shell.turn(at=21.0, stopped=True) == [STOPPED]


def test_a_topology_that_is_not_well_stops_at_once() -> None:
    lost = running()
    lost.absent = {"A[0]"}
    lost.turn(at=2.0)
    assert lost.turn(at=3.0, stopped=True) == [STOPPED]
    failing = running()
    failing.fail = True
    failing.turn(at=2.0)
    assert failing.turn(at=3.0, stopped=True) == [STOPPED]


def test_a_node_that_is_lost_meanwhile_ends_it() -> None:
    shell = running()
    shell.acks = []
    shell.turn(at=2.0, stopped=True)
    shell.absent = {"A[0]"}
    assert STOPPED not in shell.turn(at=2.5, stopped=True)
    assert shell.turn(at=3.0, stopped=True) == [STOPPED]
    assert not shell.machine.checkpoints.kept


def test_one_that_cannot_be_stored_ends_it() -> None:
    shell = running()
    shell.acks = [structs.replace(ack("A[0]", 1), error="no room")]
    shell.turn(at=2.0, stopped=True)
    assert shell.turn(at=2.5, stopped=True) == [STOPPED]


def test_it_waits_no_longer_than_an_upload_may_take() -> None:
    shell = running()
    shell.acks = []
    for at in (2.0, 30.0, 1.5 + UPLOAD_TIMEOUT):
        assert STOPPED not in shell.turn(at=at, stopped=True)
    assert shell.turn(at=2.5 + UPLOAD_TIMEOUT, stopped=True) == [STOPPED]


def test_the_one_that_is_under_way_ends_first() -> None:
    """It is of an earlier epoch, and its agents are at work."""
    shell = Shell(chain(), Recorded())
    shell.acks = []
    shell.turn(at=20.0)
    shell.turn(at=21.0)
    assert (shell.machine.checkpoints.pending is not None, shell.machine.tracker.committed) == (True, 2)
    assert not jobs(shell.turn(at=22.0, stopped=True))
    shell.acks = None
    shell.turn(at=23.0, stopped=True)
    assert shell.machine.checkpoints.latest == 1
    (job,) = jobs(shell.turn(at=24.0, stopped=True))
    assert job.checkpoint == 2
    assert shell.turn(at=25.0, stopped=True) == [STOPPED]
    assert shell.machine.checkpoints.latest == 2


def test_it_goes_on_when_it_is_to_run_again() -> None:
    shell = running()
    shell.acks = []
    shell.turn(at=2.0, stopped=True)
    told = shell.turn(at=3.0)
    assert [one for one in told if isinstance(one, PlanEpochs)]
    assert [job.lane is not None for job in jobs(told)] == [True]
