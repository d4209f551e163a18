"""Random kills, plans and restarts of one run of the epoch machine."""

from __future__ import annotations

import random

from msgspec import structs

from domain.messages import Plan
from domain.topology import Topology
from domain.topology.spec import CheckpointMode, InputSpec, OperatorSpec, TopologySpec
from tests.simulation.cyclic_graphs import cyclic_topology
from tests.simulation.exact_disk import Disk
from tests.simulation.exact_run import DriverKilledError, ExactRun


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
    now and then the topology is undeployed, and deployed again to go on from its newest checkpoint; and
    drivers die before they note that a checkpoint is complete."""

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
        if stops:
            self.pointing = random.Random(f"pointing-{seed}")
            self.run.pointed = self.pointed
        self.tentative = random.Random(f"tentative-{seed}") if tentative else None

    def pointed(self) -> None:
        if not self.calm and self.pointing.random() < 0.2:
            raise DriverKilledError

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
