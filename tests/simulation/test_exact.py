"""Outputs are exact under random failures, plans and restarts. First the epoch machine and partition runs
alone, with random plans (in any order and number, too early, too late, with and without rollback) that no
coordinator would make; then together with the coordinator."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from domain.topology.copies import branch_of
from domain.topology.spec import CheckpointMode
from tests.examples import examples
from tests.simulation.exact_chaos import LIMIT, Chaos
from tests.simulation.exact_world import ExactWorld, ReplicatedWorld
from tests.simulation.incident_schedules import WITH_PARKING, check, check_ended, run_schedule, world_of

# Schedules of each kind that the tests run by default.
RUNS = 300
MOVES = 60
REPLICAS = 200
TENTATIVE = 120
ENDS = 60
CYCLES = 60
MODES = 60
WORLDS = 60
STOPS = 60


@settings(max_examples=examples(RUNS), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_every_query_has_every_epoch_once(seed: int, deterministic: bool) -> None:
    Chaos(seed, deterministic=deterministic).go()


@settings(max_examples=examples(REPLICAS), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_shadows_take_over_while_everything_else_happens(seed: int, moves: bool, deterministic: bool) -> None:
    """None does where operators are not deterministic, because none is there."""
    chaos = Chaos(seed, deterministic=deterministic, moves=moves, replicas=True)
    chaos.go()
    assert deterministic or not chaos.run.outside.history.shadowed


@settings(max_examples=examples(TENTATIVE), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())
def test_branches_never_touch_what_is_exact(
    seed: int, moves: bool, replicas: bool, deterministic: bool
) -> None:
    """None is there once all is well, nor where operators are not deterministic."""
    chaos = Chaos(seed, deterministic=deterministic, moves=moves, replicas=replicas, tentative=True)
    chaos.go()
    assert not chaos.run.tracker.branches.homes
    for partition, node in chaos.run.tracker.homes.items():
        assert not chaos.disks[node]["t"].states.get(branch_of(partition)), f"{node} keeps a branch's state"
    assert deterministic or not chaos.run.outside.history.branched


def test_schedules_have_branches() -> None:
    """Also some that lack no input themselves, below others that do."""
    histories = []
    for seed in range(20):
        chaos = Chaos(seed, tentative=True)
        chaos.go()
        histories.append(chaos.run.outside.history)
    assert sum(one.branched for one in histories) > 200
    assert 100 < sum(one.lacking for one in histories) < sum(one.branched for one in histories)
    assert sum(len(one.tentative) for one in histories) > 100


def test_a_shadow_ends_before_state_is_handed_over_to_its_place() -> None:
    """The driver was killed during the handover; the next one took the shadow for as far as it had been."""
    Chaos(401413, moves=True, replicas=True).go()


def test_a_later_takeover_on_the_same_node_is_not_one_that_a_plan_knew_of() -> None:
    """After it the driver was started anew, and its plan and its homes were at odds."""
    Chaos(100348, replicas=True).go()


@settings(max_examples=examples(MOVES), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_state_moves_while_everything_else_happens(seed: int, deterministic: bool) -> None:
    Chaos(seed, deterministic=deterministic, moves=True).go()


@settings(max_examples=examples(MODES), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([1, 2, 5]))
def test_however_checkpoints_are_made_they_are_of_one_history(
    seed: int, deterministic: bool, at_once: int
) -> None:
    """1: epochs stand still while one is stored."""
    mode: CheckpointMode = "synchronous" if at_once == 1 else "asynchronous"
    Chaos(seed, deterministic=deterministic, moves=seed % 2 == 0, mode=mode, at_once=at_once).go()


@settings(max_examples=examples(STOPS), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_what_was_undeployed_goes_on_from_its_checkpoint(
    seed: int, deterministic: bool, cycles: bool
) -> None:
    Chaos(seed, deterministic=deterministic, moves=seed % 2 == 0, cycles=cycles, stops=True).go()


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_topology_that_is_well_leaves_all_that_it_committed(deterministic: bool) -> None:
    chaos = Chaos(1, deterministic=deterministic)
    run, chaos.calm, run.flaws = chaos.run, True, False
    for _ in range(12):
        run.turn()
    committed, run.stopped = run.tracker.committed, True
    run.turn()
    assert not run.over, "it ended before the checkpoint was complete"
    for _ in range(5):
        run.turn()
    assert (run.over, run.tracker.committed, run.latest[0]) == (True, committed, committed)
    assert committed > 10
    plan = structs.replace(run.plan, generation=2, kind="restore", rollback=True, checkpoint=committed)
    run.deploy_again(plan)
    for _ in range(5):
        run.turn()
    assert run.tracker.committed >= committed + 4
    assert run.replayed == 0
    run.validate()


def test_stops_of_all_kinds_happen() -> None:
    """Some are of topologies that are not well, and leave no checkpoint."""
    runs = [Chaos(seed, stops=True) for seed in range(20)]
    for one in runs:
        one.go()
    stops, left = sum(one.run.stops for one in runs), sum(one.run.left for one in runs)
    assert stops > 20
    assert stops / 5 < left < stops


def test_schedules_have_checkpoints_beside_each_other_and_epochs_that_wait_for_one() -> None:
    several = [Chaos(seed, at_once=3) for seed in range(3)]
    waiting = [Chaos(seed, mode="synchronous") for seed in range(3)]
    neither = [Chaos(seed) for seed in range(3)]
    for one in (*several, *waiting, *neither):
        one.go()
    assert max(one.run.at_once for one in several) == 3
    assert sum(one.run.stood_still for one in waiting) > 20
    assert not any(one.run.stood_still for one in neither)
    assert {one.run.at_once for one in (*waiting, *neither)} == {1}


def test_schedules_have_what_they_are_for() -> None:
    """Jobs beside replays, replays that were ended early, and partitions of slow nodes that run apart."""
    runs = [Chaos(seed) for seed in range(20)]
    for one in runs:
        one.go()
    assert sum(one.run.beside for one in runs) > 50
    assert sum(one.run.ended_early for one in runs) > 10
    assert sum(one.run.apart for one in runs) > 50


@pytest.mark.parametrize("seed", [1000028, 1000051, 1000070, 2000272])
def test_a_bounded_input_ends_although_disks_were_emptied_at_its_end(seed: int) -> None:
    """Partitions at the last epoch did not find out that others needed a state which they had lost, and one
    whose snapshot had failed did not try again."""
    Chaos(seed, limit=LIMIT).go_to_the_end()


def test_a_task_that_ran_again_and_died() -> None:
    """The world took the report of its first attempt for that of the second."""
    Chaos(3276, moves=True).go()


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_moves_goes_on_from_where_it_was(deterministic: bool) -> None:
    """Nothing is computed again: no partition is put back, and no epoch is late."""
    chaos = Chaos(1, deterministic=deterministic)
    run, chaos.calm = chaos.run, True
    run.flaws = False
    for _ in range(12):
        run.turn()
    run.plan = structs.replace(
        run.plan,
        generation=2,
        kind="move",
        assignment={partition: chaos.join() for partition in chaos.graph.partitions},
        restore=list(chaos.graph.partitions),
    )
    for _ in range(6):
        before = run.tracker.committed
        run.turn()
        assert run.tracker.committed == before + 1 == run.head, "the epoch that fell due was not run"
    assert (run.generation, run.handed_over, run.replayed) == (2, len(chaos.graph.partitions), 0)
    run.validate()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_stays_buffered(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.go()
    for _ in range(20):
        chaos.run.turn(present=1)
    assert chaos.run.buffered() == 0


@pytest.mark.parametrize("seed", [15, 22, 700091, 700170])
def test_one_history_although_operators_are_not_deterministic(seed: int) -> None:
    """15, 22: snapshots of two attempts made up one checkpoint, after Spark had given up the first. The
    others: the driver died after it had put all partitions back, and its log did not say so yet."""
    Chaos(seed, deterministic=False).go()


@settings(max_examples=examples(ENDS), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_a_bounded_input_ends_with_a_checkpoint_of_one_history(seed: int, deterministic: bool) -> None:
    Chaos(seed, deterministic=deterministic, limit=LIMIT).go_to_the_end()


@settings(max_examples=examples(CYCLES), deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())
def test_cycles_are_exact(seed: int, moves: bool, replicas: bool, deterministic: bool) -> None:
    """What is on feedback streams is lost, doubled or of another epoch nowhere."""
    chaos = Chaos(seed, cycles=True, deterministic=deterministic, moves=moves, replicas=replicas)
    chaos.go()
    assert deterministic or not chaos.run.outside.history.shadowed


@settings(max_examples=examples(CYCLES), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_a_bounded_input_ends_when_cycles_have_drained(seed: int, deterministic: bool) -> None:
    """Or at the limit, if they never do."""
    Chaos(seed, cycles=True, deterministic=deterministic, limit=LIMIT).go_to_the_end()


def test_what_is_in_or_below_a_cycle_gives_no_tentative_output() -> None:
    """What is beside it does."""
    branched = 0
    for seed in range(20):
        chaos = Chaos(seed, cycles=True, tentative=True)
        chaos.go()
        history = chaos.run.outside.history
        assert not {query for query, _ in history.tentative} & chaos.graph.cyclic
        branched += history.branched
    assert branched > 10


@pytest.mark.parametrize("seed", [8, 77, 99])
def test_ends_that_once_failed(seed: int) -> None:
    """The last checkpoint was made of snapshots of two attempts at it."""
    Chaos(seed, deterministic=False, limit=LIMIT).go_to_the_end()


@pytest.mark.parametrize("seed", range(8))
def test_what_was_undone_is_not_gone_back_to_by_a_new_driver(seed: int) -> None:
    """ZooKeeper was away when the driver went back, and still named checkpoints of the undone history; a plan
    that was made with them reaches a driver that was started anew and has completed a later one."""
    chaos = Chaos(seed, deterministic=False)
    run, chaos.calm = chaos.run, True
    run.flaws = False
    while len(run.kept) < 3:
        run.turn()
    before, undone = run.outside.latest, run.kept[1]
    back = structs.replace(run.plan, kind="restore", rollback=True)
    run.plan = structs.replace(back, generation=2, checkpoint=run.kept[0])
    while run.generation < 2:
        run.turn()
    run.outside.latest = before
    run.kill_driver()
    while run.latest[0] <= before.checkpoint:
        run.turn()
    run.plan = structs.replace(back, generation=3, checkpoint=undone)
    for _ in range(10):
        run.turn()
    assert run.refused == 3
    assert undone not in run.restorable
    run.plan = structs.replace(back, generation=4, checkpoint=run.restorable[-1])
    for _ in range(40):
        run.turn()
    assert run.generation == 4
    run.validate()


# 103: the driver died when manifests were trimmed and its log did not yet name the checkpoint of the trim.
# 1103: a node kept buffers of a partition that had left it. 1954: a disk was exchanged during a checkpoint.
# 4583: a topology was to go back although nothing of it was down, and nodes were asked for without end.
# 30576: the node asked for was as large as one topology needed, and another one needed a larger.
# 174: a plan named a checkpoint newer than the one all partitions had been put back to meanwhile.
# 12055: a plan moved a partition that an earlier plan, which no driver had applied, was to restore there.
# 104392: a plan that no driver had adopted yet named a node that died; an operator had aborted the incident.
# 6318: the checkpoint that an operator had chosen was dropped before the driver applied the plan.
# 174 again: a node kept state of an earlier deployment, of higher attempts than those of the present one.
# 300182: an operator chose a checkpoint, then asked for the newest; a new coordinator still took the first.
# 306559: the world itself took for part of a wave what had failed since and was planned in the same step.
# 500576: a plan moved partitions, their node died before it was applied, and what they computed again others
# had consumed already; operators were not deterministic. 500519 and 502649: where chains were planned as one,
# operator-centric planning took members of a chain without the first, whose cost stood for all of it.
# 206134: all partitions were put back to a checkpoint of the newest epoch, and the world had no next one.
@pytest.mark.parametrize(
    "seed",
    [
        *(103, 174, 1103, 1954, 4583, 6318, 12055, 30576, 104392, 206134, 300182, 306559),
        *(500519, 500576, 502649),
    ],
)
def test_schedules_that_once_failed(seed: int) -> None:
    run_schedule(seed, kind=ExactWorld)


@pytest.mark.parametrize("seed", [8, 30, 31, 32, 700311, 701120])
def test_parked_queries_return_exactly(seed: int) -> None:
    """8 and 30: all queries were parked, and the driver waited for the nodes of a plan without partitions.
    700311 and 701120: a topology was deployed anew, and what was parked went on running."""
    world = run_schedule(seed, kind=ExactWorld, actions=WITH_PARKING)
    assert world.counts["changes of what is parked"]


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_whose_checkpoint_is_gone_is_made_again(seed: int) -> None:
    """The driver reads ZooKeeper late, sometimes anew, and sometimes a node is lost meanwhile."""
    world, rng = world_of(seed, ExactWorld), random.Random(seed)
    exact = world.exact["t0"]
    world.recover_now("t0", checkpoint=exact.kept[0])
    world.do_step(rng)
    for proposed in world.load(1, False).open_proposals().values():
        world.approve(proposed.proposal)
    world.do_step(rng)
    world.do_publish(rng)
    assert world.newest("t0").checkpoint == exact.kept[0]
    chosen, exact.flaws = exact.kept[0], False
    while chosen in exact.kept:
        exact.turn()
    exact.flaws = True
    world.follow_runs()
    if seed % 2:
        world.do_restart_driver(rng)
    if seed % 3 == 0:
        world.do_kill(rng)
    for action in (world.do_drive, world.do_step, world.do_drive):
        action(rng)
        check(world)
    world.settle()
    check_ended(world)
    assert world.counts["plans refused by drivers"] >= 1
    refused = next(plan for plan in world.plans if plan.topology == "t0" and plan.checkpoint == chosen)
    assert (refused.state, refused.generation in exact.applied) == ("superseded", False)


@settings(max_examples=examples(WORLDS), deadline=None)
@given(st.integers(0, 2**32))
def test_coordinator_and_data_plane_together(seed: int) -> None:
    """Real coordinator, planners, tracker and runtimes; simulated nodes, network and ZooKeeper."""
    run_schedule(seed, kind=ExactWorld)


@settings(max_examples=examples(WORLDS // 3), deadline=None)
@given(st.integers(0, 2**32))
def test_a_coordinator_that_knows_nothing_of_replicas(seed: int) -> None:
    """Its incidents end, and all is exact, although shadows act for what it takes for failed."""
    run_schedule(seed, kind=ReplicatedWorld)
