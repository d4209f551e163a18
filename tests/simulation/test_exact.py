"""Outputs are exact under random failures, plans and restarts. First the epoch machine and partition runs
alone, with random plans (in any order and number, too early, too late, with and without rollback) that no
coordinator would make; then together with the coordinator."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from domain.messages import Plan
from domain.topology import Topology
from domain.topology.copies import branch_of
from domain.topology.spec import CheckpointMode, InputSpec, OperatorSpec, TopologySpec
from tests.examples import examples
from tests.simulation.cyclic_graphs import cyclic_topology
from tests.simulation.exact_disk import Disk
from tests.simulation.exact_run import DriverKilledError, ExactRun
from tests.simulation.exact_world import ExactWorld, ReplicatedWorld
from tests.simulation.incident_schedules import WITH_PARKING, check, check_ended, run_schedule, world_of


def topology(deterministic: bool = True, catch_up_epochs: int = 8) -> Topology:
    """Two sources; a shared, a private and a joining branch; chains, shuffles and a diamond."""

    def operator(name: str, inputs: str, *, parallelism: int = 1, output: bool = False) -> OperatorSpec:
        streams = tuple(
            InputSpec(source=source, partitioning="one_to_one" if source.islower() else "full")
            for source in inputs
        )
        return OperatorSpec(
            name=name, kind="k", parallelism=parallelism, inputs=streams, output=output,
            deterministic=deterministic,
        )  # fmt: skip

    return Topology(
        TopologySpec(
            name="t",
            catch_up_epochs=catch_up_epochs,
            operators=(
                operator("s", "", parallelism=2),
                operator("R", ""),
                operator("P", "s", parallelism=2),
                operator("A", "P", output=True),
                operator("B", "P", parallelism=2, output=True),
                operator("C", "R", output=True),
                operator("J", "AC", output=True),
                operator("V", "A", output=True),
                operator("D", "BV", output=True),
            ),
        )
    )


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
# Epochs of a bounded input.
LIMIT = 8
# Turns after which a driver that is to stop has ended, at the latest: those of a minute, and some more.
LONGEST_STOP = 250
# Turns in a row with nothing left to do, after which a run that nothing disturbs stays as it is. Three
# checkpoints or more are completed in them. Replicas change all the time, and so have more.
QUIET = 10
QUIET_WITH_REPLICAS = 30


class Chaos:
    """Random kills, plans and restarts of one run; `moves`: and plans that move what runs; `replicas`: and
    shadows on any nodes, which are lost alone, with their partitions, and one after the other; `cycles`: of a
    topology with feedback streams. mode, at_once: how checkpoints are made, and how many at a time. stops:
    now and then the topology is undeployed, and deployed again to go on from its newest checkpoint."""

    def __init__(
        self,
        seed: int,
        *,
        deterministic: bool = True,
        limit: int | None = None,
        moves: bool = False,
        replicas: bool = False,
        tentative: bool = False,
        cycles: bool = False,
        mode: CheckpointMode = "asynchronous",
        at_once: int = 1,
        stops: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.stops = random.Random(f"stops-{seed}") if stops else None
        self.replicas = random.Random(f"replicas-{seed}") if replicas else None
        self.moves = random.Random(f"moves-{seed}") if moves else None
        catch_up_epochs, dry = self.rng.choice([1, 2, 4, 8]), None
        if cycles:
            dice = random.Random(f"cycles-{seed}")
            # In some runs feedback streams carry rows until the last epoch that they may.
            dry = None if limit is None else limit + dice.choice([-2, 0, 1, 3, 100])
            self.graph = cyclic_topology(
                dice,
                deterministic=deterministic,
                catch_up_epochs=catch_up_epochs,
                drain_epochs=dice.choice([1, 4, 12]),
            )
        else:
            self.graph = topology(deterministic, catch_up_epochs)
        spec = structs.replace(self.graph.spec, checkpoint_mode=mode, checkpoints_at_once=at_once)
        self.graph = Topology(spec)
        self.disks = {f"n{i}": Disk() for i in range(4)}
        self.count = 4
        assignment = {p: f"n{self.rng.randrange(4)}" for p in self.graph.partitions}
        plan = Plan(generation=1, kind="deploy", assignment=assignment)
        self.calm = False
        self.run = ExactRun(
            self.graph,
            disks=self.disks,
            plan=plan,
            rng=self.rng,
            interrupt=self.interrupt,
            limit=limit,
            dry=dry,
        )
        self.tentative = random.Random(f"tentative-{seed}") if tentative else None

    def interrupt(self) -> None:
        if self.calm:
            return
        if self.replicas is not None and self.replicas.random() < 0.0007 and len(self.disks) > 1:
            replicated = {self.run.tracker.homes.get(p, "") for p in self.run.replicas} & self.disks.keys()
            if replicated:
                del self.disks[self.replicas.choice(sorted(replicated))]
                return
        dice = self.rng.random()
        if dice < 0.001 and len(self.disks) > 1:
            del self.disks[self.rng.choice(sorted(self.disks))]
        elif dice < 0.0016:
            raise DriverKilledError
        elif dice < 0.0019:
            node = self.rng.choice(sorted(self.disks))
            self.disks[node] = Disk()
            self.run.emptied.add(node)

    def join(self) -> str:
        self.count += 1
        self.disks[f"n{self.count}"] = Disk()
        return f"n{self.count}"

    def coordinate(self) -> None:
        """A plan for some of the failed partitions on random nodes; for all of them at the end."""
        if self.stops is not None:
            self.undeploy(self.stops)
            if self.run.stopped:
                return
        if self.replicas is not None:
            self.replicate(self.replicas)
        if self.tentative is not None and (self.calm or self.tentative.random() < 0.2):
            queries = sorted({operator.name for operator in self.graph.outputs})
            chosen = (
                queries
                if self.calm
                else self.tentative.sample(queries, self.tentative.randint(1, len(queries)))
            )
            self.run.tentative = {name: self.tentative.choice([0.0, 0.3]) for name in chosen}
        plan = self.known_acting()
        down = [p for p in self.graph.partitions if plan.assignment.get(p) not in self.disks]
        if self.moves is not None and not self.calm and self.moves.random() < 0.2:
            self.move(plan, self.moves)
            return
        if not down or (not self.calm and self.rng.random() < 0.6):
            return
        chosen = down if self.calm else self.rng.sample(down, self.rng.randint(1, len(down)))
        alive = sorted(self.disks)
        if self.rng.random() < 0.5:
            alive.append(self.join())
        rollback = not self.graph.deterministic or self.rng.random() < 0.2
        running = {p: node for p, node in plan.assignment.items() if node in self.disks}
        # What a plan that may never have been applied was to restore is restored again, unless the incident
        # was aborted and the next one knows nothing of it.
        forgotten = plan.generation in self.run.applied or self.rng.random() < 0.3
        unapplied = [] if forgotten else [p for p in plan.restore if p in running]
        self.run.plan = Plan(
            generation=plan.generation + 1,
            kind="recover",
            assignment={**running, **{p: self.rng.choice(alive) for p in chosen}},
            rollback=rollback or (plan.rollback and plan.generation not in self.run.applied),
            checkpoint=self.run.latest[0],
            restore=[*chosen, *unapplied],
            buffering=self.rng.random() < 0.7,
            acting=plan.acting,
        )

    def replicate(self, dice: random.Random) -> None:
        """Other replicas now and then; and two nodes die at once."""
        if dice.random() < 0.15 or (self.calm and not self.run.replicas):
            chosen = dice.sample(self.graph.partitions, dice.randint(0, len(self.graph.partitions)))
            self.run.replicas = {p: dice.choice(sorted(self.disks)) for p in chosen}
        if not self.calm and dice.random() < 0.04:
            for node in dice.sample(sorted(self.disks), min(2, len(self.disks) - 1)):
                del self.disks[node]

    def undeploy(self, dice: random.Random) -> None:
        """Or deploy again. A driver that is to stop does so, whatever happens to nodes meanwhile."""
        run = self.run
        if not run.stopped:
            run.stopped = not self.calm and dice.random() < 0.05
            self.asked = 0
            return
        self.asked += 1
        assert run.over or self.asked < LONGEST_STOP, f"still {run.state} after {self.asked} turns"
        if not run.over:
            return
        alive = sorted(self.disks)
        partitions = self.graph.partitions
        plan = Plan(
            generation=run.plan.generation + 1,
            kind="restore",
            assignment={one: dice.choice(alive) for one in partitions},
            rollback=True,
            checkpoint=run.latest[0],
            restore=list(partitions),
        )
        run.deploy_again(plan)

    def known_acting(self) -> Plan:
        """The newest plan as the next one begins with it: that one may know which shadows act."""
        plan, acting = self.run.plan, dict(self.run.tracker.acting)
        if self.replicas is None or not acting or (not self.calm and self.replicas.random() < 0.5):
            return plan
        return structs.replace(plan, assignment={**plan.assignment, **acting}, acting=acting)

    def move(self, plan: Plan, dice: random.Random) -> None:
        """A plan that moves some partitions, whatever became of the one before."""
        running = sorted(p for p, node in plan.assignment.items() if node in self.disks)
        moved = dice.sample(running, dice.randint(0, min(4, len(running))))
        alive = [*sorted(self.disks), self.join()] if dice.random() < 0.3 else sorted(self.disks)
        unapplied = plan.generation not in self.run.applied and plan.kind != "deploy"
        self.run.plan = Plan(
            generation=plan.generation + 1,
            # What a plan that may never have been applied was to restore is restored by the next.
            kind="recover" if unapplied else "move",
            assignment={**plan.assignment, **{p: dice.choice(alive) for p in moved}},
            rollback=unapplied and plan.rollback,
            checkpoint=self.run.latest[0],
            restore=plan.put_back if unapplied else moved,
            buffering=unapplied and plan.buffering,
            acting=plan.acting,
        )

    def go(self) -> None:
        for _ in range(60):
            self.run.turn(present=self.rng.choice([0, 1, 1, 2]))
            self.coordinate()
        self.calm = True
        self.run.flaws = False
        quiet, enough = 0, QUIET if self.replicas is None else QUIET_WITH_REPLICAS
        for _ in range(80):
            self.run.turn(present=1)
            self.coordinate()
            quiet = quiet + 1 if self.run.settled() else 0
            if quiet == enough:
                break
        self.run.interrupt = lambda: None
        for _ in range(400):
            if self.run.settled():
                break
            self.run.turn(present=0)
        assert self.run.settled(), (self.run.state, self.run.tracker.progress, self.run.head)
        self.run.validate()

    def go_to_the_end(self) -> None:
        """Of a bounded input; the last turns are undisturbed, so that there is an end."""
        for turn in range(400):
            self.calm = turn > 200
            self.run.flaws = turn <= 300
            if turn > 300:
                self.run.interrupt = lambda: None
            self.run.turn()
            if self.run.completed:
                break
            self.coordinate()
        assert self.run.completed, (self.run.state, self.run.tracker.progress, self.run.head)
        self.run.validate()


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
# 206134: all partitions were put back to a checkpoint of the newest epoch, and the world had no next one.
@pytest.mark.parametrize(
    "seed", [103, 174, 1103, 1954, 4583, 6318, 12055, 30576, 104392, 206134, 300182, 306559]
)
def test_schedules_that_once_failed(seed: int) -> None:
    run_schedule(seed, kind=ExactWorld)


@pytest.mark.parametrize("seed", [8, 30, 31, 32])
def test_parked_queries_return_exactly(seed: int) -> None:
    """8 and 30: all queries were parked, and the driver waited for the nodes of a plan without partitions."""
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
