"""Which plans the epoch machine takes, which it refuses, and what it waits for."""

from __future__ import annotations

from typing import Any

from domain.execution.epoch_machine import Recorded
from domain.execution.instructions import (
    MakeWay,
    RecordPlan,
    Retire,
    TasksPlaced,
    TellProblem,
)
from domain.execution.progress import Position
from domain.messages import Plan
from tests.unit.domain.execution.epoch_shell import (
    Shell,
    chain,
    kinds,
    plan,
    published,
)


def gone_back(generation: int, checkpoint: int, **changes: Any) -> Plan:
    """A plan that puts all of it back."""
    assignment = {"S[0]": "n1", "A[0]": "n1"}
    return Plan(
        generation=generation, kind="restore", assignment=assignment, rollback=True, checkpoint=checkpoint,
        **changes,
    )  # fmt: skip


def trimmed() -> Recorded:
    """The log of a run whose checkpoints 10 and 15 are kept: what is older is gone."""
    homes = {"S[0]": "n1", "A[0]": "n1"}
    return Recorded(
        head=20, oldest=10, position=Position(20, checkpoint=15), generation=1, homes=homes, life=2
    )  # fmt: skip


def test_a_plan_whose_checkpoint_is_gone_is_refused_and_the_run_goes_on() -> None:
    """Also by a driver that was started anew and has seen no other plan."""
    for anew in (False, True):
        shell = Shell(chain(), trimmed(), kept=(10, 15))
        if not anew:
            shell.turn()
        shell.plan = gone_back(2, checkpoint=7)
        told = shell.turn(at=2.0)
        problem = next(one for one in told if isinstance(one, TellProblem))
        assert problem.where == "plan 2"
        assert "checkpoint 7" in problem.what
        assert "10, 15" in problem.hint
        assert RecordPlan not in kinds(told)
        said = published(told)
        assert (said.refused, said.restorable, said.generation) == (2, [10, 15], 1)
        assert shell.machine.tracker.committed > 20, "the run goes on under the plan before"
        again = shell.turn(at=3.0)
        assert published(again).refused == 2
        assert not {TellProblem, RecordPlan} & set(kinds(again)), "told once, and never applied"


def test_a_newer_plan_replaces_a_refused_one_at_once() -> None:
    shell = Shell(chain(), trimmed(), kept=(10, 15))
    shell.turn()
    shell.plan = gone_back(2, checkpoint=7)
    shell.turn(at=2.0)
    shell.plan = gone_back(3, checkpoint=15)
    told = shell.turn(at=3.0)
    recorded = next(one for one in told if isinstance(one, RecordPlan))
    assert (recorded.generation, recorded.position.checkpoint) == (3, 15)
    assert (published(told).refused, published(told).generation) == (0, 3)


def test_a_plan_is_refused_before_its_nodes_are_there() -> None:
    shell = Shell(chain(), trimmed(), kept=(10, 15))
    shell.turn()
    shell.plan, shell.ready = gone_back(2, checkpoint=7), set()
    assert published(shell.turn(at=2.0)).refused == 2


def spread(generation: int, second: str, **changes: Any) -> Plan:
    """S on n1, A on `second`."""
    assignment = {"S[0]": "n1", "A[0]": second}
    return Plan(generation=generation, kind="recover", assignment=assignment, **changes)


def losing(node: str) -> Shell:
    """S runs on n1, A has run on a node that is gone."""
    shell = Shell(chain(), Recorded())
    shell.plan = spread(1, node)
    shell.ready = {"n1", node}
    shell.turn()
    shell.absent, shell.ready = {"A[0]"}, {"n1"}
    shell.machine.handle(TasksPlaced(at=2.0, absent={"A[0]"}, reachable=True))
    return shell


def test_a_plan_does_not_wait_for_a_node_whose_partitions_run_nowhere() -> None:
    """The other nodes go over to it at once; further waves are planned only when it is applied."""
    shell = losing("n2")
    shell.plan = spread(2, "n3")
    told = shell.turn(at=3.0)
    assert published(told).generation == 2
    assert published(told).absent == ["A[0]"]
    assert shell.machine.tracker.restore == {"A[0]": 0}
    shell.absent, shell.ready = set(), {"n1", "n3"}
    assert published(shell.turn(at=4.0)).absent == []


def test_a_plan_waits_for_a_node_that_is_to_run_what_runs_elsewhere() -> None:
    shell = Shell(chain(), Recorded())
    shell.turn()
    shell.plan = spread(2, "n3")
    assert published(shell.turn(at=2.0)).generation == 1


def test_a_plan_that_puts_back_everything_waits_for_all_nodes() -> None:
    shell = losing("n2")
    shell.plan = spread(2, "n3", rollback=True)
    assert published(shell.turn(at=3.0)).generation == 1


def test_a_checkpoint_of_an_undone_history_is_refused() -> None:
    """Its number is between those that are kept: the log has its epochs, and they came out otherwise."""
    shell = Shell(chain(deterministic=False), trimmed(), kept=(10, 15))
    shell.turn()
    shell.plan = gone_back(2, checkpoint=12)
    assert published(shell.turn(at=2.0)).refused == 2


def test_without_any_checkpoint_an_operator_is_told_what_is_left_to_do() -> None:
    recorded = Recorded(head=20, oldest=18, position=Position(20, checkpoint=15), generation=1)
    shell = Shell(chain(), recorded)
    shell.plan = gone_back(2, checkpoint=7)
    told = shell.turn()
    assert published(told).restorable == []
    assert "deploy it again" in next(one for one in told if isinstance(one, TellProblem)).hint


def test_what_a_plan_starts_from_is_kept_until_it_is_applied() -> None:
    """Its nodes are not there yet, and the run that goes on completes one checkpoint after the other."""
    for checkpoint, log_below in ((10, 10), (15, 10), (0, 0)):
        recorded = trimmed() if checkpoint else Recorded(generation=1, homes=trimmed().homes)
        shell = Shell(chain(), recorded, kept=(10, 15) if checkpoint else ())
        shell.turn()
        shell.plan, shell.ready = gone_back(2, checkpoint), set()
        shell.turn(at=2.0)
        retired = [
            one for at in range(20, 80, 10) for one in shell.turn(at=float(at)) if isinstance(one, Retire)
        ]
        assert len(retired) == 6
        kept = shell.machine.checkpoints.kept
        assert len(kept) == (4 if checkpoint else 3)
        assert all(one.log_below <= max(checkpoint, log_below) for one in retired)
        shell.ready = {"n1"}
        told = shell.turn(at=90.0)
        applied = next(one for one in told if isinstance(one, RecordPlan))
        assert applied.position.checkpoint == checkpoint
        shell.turn(at=91.0)
        assert shell.machine.checkpoints.held is None


def test_a_plan_of_a_later_deployment_ends_the_driver() -> None:
    """Whatever kind it is of: the plan that deployed it may have been superseded before it was published."""
    for later in (plan(2), gone_back(3, checkpoint=0, deployed=2)):
        shell = Shell(chain(), trimmed(), kept=(10, 15))
        shell.turn()
        shell.plan = later
        (told,) = shell.machine.handle(shell.news(2.0))
        assert told == MakeWay(f"plan {later.generation} is of a later deployment")
    first = Shell(chain(), Recorded())
    first.plan = gone_back(3, checkpoint=0, deployed=2)
    assert RecordPlan in kinds(first.turn()), "a driver without a run starts with any plan"
