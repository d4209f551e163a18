"""Where a topology's run stands, and what a plan, a failure and a finished job do to it. Pure.

This is Algorithm 2 of incremental recovery (EXECUTERECOVERYPLAN) and the bookkeeping around it, without Spark
or files: the driver asks it what to run next and tells it what became of that. The same code runs in the
simulator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from domain.execution.branches import Branches, Standing
from domain.execution.flows import Flows
from domain.execution.lanes import Coverage, Lane, present_lane, replay_lane
from domain.execution.reach import consumed_before, links_of, reaches
from domain.execution.shadows import Shadows, unknown_to
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.copies import branch_of, is_branch, is_shadow, shadow_of, with_copies


@dataclass(frozen=True, slots=True)
class Position:
    """What must survive the driver: `committed` is the least epoch any partition applied, `ahead` are those
    that applied more, `restore` those whose checkpoint has yet to be installed on their node. `checkpoint` is
    the newest complete one since the topology was put back as a whole: later ones belong to another past.
    `shadows` says on which node the shadow of a partition is and how far, `acting` on which nodes shadows
    have taken over that the plan applied last does not know of, `branches` where branches are and how far."""

    committed: int = 0
    ahead: dict[str, int] = field(default_factory=dict)
    restore: dict[str, int] = field(default_factory=dict)
    checkpoint: int = 0
    shadows: dict[str, tuple[str, int]] = field(default_factory=dict)
    acting: dict[str, str] = field(default_factory=dict)
    branches: dict[str, tuple[str, int]] = field(default_factory=dict)


class ProgressTracker:
    """`progress`: last epoch each partition applied. `restore`: partition -> checkpoint to install before it
    runs. `absent`: partitions that do not run, because their node is lost or no plan places them.
    `buffering`: outputs for partitions that do not follow are kept. `homes`: the assignment applied last,
    with what shadows took over since. `shadows`, `branches`: those of partitions. `acting`: as in
    `Position`."""

    def __init__(
        self, topology: Topology, position: Position, homes: Mapping[str, str] | None = None
    ) -> None:
        self.topology = topology
        self.progress: dict[str, int] = {
            partition: position.ahead.get(partition, position.committed) for partition in topology.partitions
        }
        self.restore: dict[str, int] = dict(position.restore)
        self.checkpoint = position.checkpoint
        self.homes = dict(homes or {})
        self.acting = dict(position.acting)
        self.shadows = Shadows(
            topology,
            homes={shadow_of(p): node for p, (node, _) in position.shadows.items()},
            progress={shadow_of(p): epoch for p, (_, epoch) in position.shadows.items()},
        )
        self.shadows.keep_behind(self.progress)
        self.branches = Branches(
            topology,
            homes={branch_of(p): node for p, (node, _) in position.branches.items()},
            progress={branch_of(p): epoch for p, (_, epoch) in position.branches.items()},
        )
        self.absent: set[str] = set(topology.partitions)
        self.coverage = Coverage()
        self.buffering = False
        # Whether there may be buffers on any node, of partitions that have left it, too.
        self.buffers_kept = True
        # Whether the partitions furthest ahead have reached the present since all were put back.
        self.caught_up = False
        self._reached: dict[str, int] | None = None

    @property
    def committed(self) -> int:
        """The newest epoch every partition has applied."""
        return min(self.progress.values())

    @property
    def position(self) -> Position:
        committed = self.committed
        ahead = {partition: epoch for partition, epoch in self.progress.items() if epoch > committed}
        return Position(
            committed,
            ahead,
            dict(self.restore),
            self.checkpoint,
            self.shadows.recorded(),
            dict(self.acting),
            self.branches.recorded(),
        )

    @property
    def copies(self) -> dict[str, str]:
        """The nodes of shadows and branches."""
        return {**self.shadows.homes, **self.branches.homes}

    @property
    def graph(self) -> Topology:
        """The topology with its shadows and branches; without any, the topology itself."""
        return with_copies(self.topology, self.shadows.operators, self.branches.operators)

    @property
    def _shadowed(self) -> Topology:
        """The topology with its shadows alone."""
        return with_copies(self.topology, self.shadows.operators, frozenset())

    def told(self) -> dict[str, int]:
        """The progress of all partitions, shadows and branches, as tasks are told."""
        return {**self.progress, **self.shadows.progress, **self.branches.progress}

    def front(self) -> int:
        """The epoch of the partitions furthest ahead that can go on; if none can, of those that were."""
        reach = self._reach()
        return max(reach.values(), default=max(self.progress.values()))

    def behind(self, head: int) -> list[str]:
        """Partitions that run and have not caught up with those furthest ahead, in topological order. While
        these are themselves replaying, all are behind that have not reached the present."""
        reach = self._reach()
        front = max(reach.values(), default=0) if self.caught_up else head - 1
        return [
            partition
            for partition in self.topology.partitions
            if partition not in self.absent and reach.get(partition, -1) < front
        ]

    def missing(self) -> int:
        """Epochs that partitions which run have yet to replay, of all of them together."""
        reach = self._reach()
        front = max(reach.values(), default=0)
        return sum(front - epoch for epoch in reach.values())

    def lacks(self, head: int) -> dict[str, int]:
        """The same by partition, with the epochs that have fallen due and that none has worked off yet."""
        reach = self._reach()
        front = max(reach.values(), default=0)
        return {partition: head - epoch for partition, epoch in reach.items() if epoch < front}

    # ---- what happens ----------------------------------------------------------------------------

    def origin(self, plan: Plan) -> int:
        """The checkpoint a plan starts from: for some partitions the newest there is, for all its own. One
        that is newer than any of the present history belongs to an undone one."""
        return min(plan.checkpoint, self.checkpoint) if self.takes_back(plan) else self.checkpoint

    def takes_back(self, plan: Plan) -> bool:
        """Whether a plan puts all partitions back to a checkpoint."""
        return plan.rollback or plan.kind == "restore"

    def needed(self, latest: int) -> tuple[int, list[int]]:
        """The epoch from which on states are needed, and earlier ones whose states are. latest: the newest
        checkpoint. Forks and restores start at one or later, and need the epochs since."""
        return min(self.committed, self.checkpoint), [latest]

    def moves(self, plan: Plan, *, placed: bool) -> dict[str, str]:
        """Partition -> node that has its state, of those that the plan takes from one node to another as
        they are. placed: False for a driver that has not looked yet which partitions are absent."""
        if self.takes_back(plan):
            return {}
        put_back = set(plan.put_back)
        return {
            partition: self.homes[partition]
            for partition, node in plan.assignment.items()
            if self.homes.get(partition, node) != node
            and self.held(partition) is not None
            and partition not in put_back
            and not (placed and partition in self.absent)
        }

    def held(self, partition: str) -> int | None:
        """The epoch of the state that the node of a partition has; None if it has none to go on with."""
        return None if partition in self.restore else self.progress[partition]

    def adopt(self, plan: Plan, *, refresh: bool = True, carried: Collection[str] = ()) -> None:
        """Apply a plan. `refresh`: False for a plan applied before the driver was restarted. carried: those
        whose state is on their new node; they go on from where they are."""
        # While what runs moves, those behind go on needing what the others send.
        self.buffering = plan.buffering or (plan.kind == "move" and self.buffering)
        self.buffers_kept = self.buffers_kept or self.buffering
        if not refresh:
            return
        # A partition that moves has no other state to trust on the new node, whether the plan says so or not:
        # an earlier plan that moved it may have been superseded before a driver applied it.
        moved = {p for p, node in plan.assignment.items() if self.homes.get(p) != node}
        moved.difference_update(carried)
        self.homes = dict(plan.assignment)
        self.acting = {p: n for p, n in unknown_to(plan, self.acting).items() if self.homes.get(p) == n}
        if self.takes_back(plan):
            self.checkpoint = self.origin(plan)
            self.put_back(self.topology.partitions, self.checkpoint)
        else:
            # An unassigned partition will start there, too: what it will need is buffered from now on.
            unassigned = {p for p in self.topology.partitions if p not in plan.assignment}
            self.put_back(moved.union(plan.put_back, unassigned), self.checkpoint)
        # What partitions that moved had buffered stays where it is, and is sent from there.
        self.coverage.forget_except(set(self.homes.values()))

    def put_back(self, partitions: Collection[str], checkpoint: int) -> None:
        """These start again from cp(P_k); what they had buffered is void."""
        for partition in partitions:
            self.progress[partition] = self.restore[partition] = checkpoint
        self.shadows.put_back(map(shadow_of, partitions), checkpoint)
        self._reached = None
        self.coverage.forget(partitions)
        if len(partitions) == len(self.progress):
            self.caught_up = False

    def lost_state(self, partitions: Collection[str]) -> None:
        """Nodes no longer have the state these partitions should start from. Only a deterministic topology
        can let some of them replay alone."""
        if partitions:
            self.put_back(
                partitions if self.topology.deterministic else self.topology.partitions, self.checkpoint
            )

    def set_absent(self, absent: Iterable[str]) -> bool:
        """True if that is news. Buffers on nodes that cannot be reached do not count."""
        gone = set(absent)
        if gone == self.absent:
            return False
        lost = {self.homes.get(partition) for partition in gone - self.absent}
        self.coverage.forget_except(set(self.homes.values()) - lost)
        self.absent, self._reached = gone, None
        return True

    def take_over(self) -> dict[str, str]:
        """Shadows take the places of partitions that do not run: partition -> node. A shadow that is behind
        its partition still is nearer than the checkpoint; the partition then applies epochs again."""
        taken = self.shadows.ready(self.absent)
        for partition, node in taken.items():
            self.progress[partition] = self.shadows.progress[shadow_of(partition)]
            self.restore.pop(partition, None)
            self.homes[partition] = self.acting[partition] = node
        self.absent.difference_update(taken)
        self.shadows.drop(taken)
        self.coverage.forget(taken)
        self._reached = None
        return taken

    def give_back(self, plan: Plan, ready: Collection[str]) -> list[str]:
        """Shadows that took over and whose nodes are lost as well give their partitions back to the nodes of
        the plan, where these start from the checkpoint. ready: nodes that can work."""
        found = [
            partition
            for partition, node in self.acting.items()
            if partition in self.absent
            and plan.assignment.get(partition, node) != node
            and plan.assignment[partition] in ready
        ]
        for partition in found:
            del self.acting[partition]
            self.homes[partition] = plan.assignment[partition]
        if found:
            self.put_back(found, self.checkpoint)
        return found

    def answering(self) -> bool:
        """Whether any query is among those furthest ahead."""
        reach = self._reach()
        front = max(reach.values(), default=0)
        return any(reach.get(query) == front for query in self.topology.queries)

    def completed(self, checkpoint: int) -> None:
        """A global checkpoint is complete: what was buffered is not needed any more (section 4.2.2)."""
        self.checkpoint = checkpoint
        self.shadows.completed(checkpoint)
        self.stop_buffering()

    def dropped(self) -> None:
        """All nodes have been told to drop their buffers."""
        self.buffers_kept = self.buffering

    def start_buffering(self) -> None:
        """From now on outputs for partitions that do not follow are kept."""
        self.buffering = self.buffers_kept = True

    def stop_buffering(self) -> None:
        self.buffering = False
        self.coverage.runs.clear()

    # ---- jobs ------------------------------------------------------------------------------------

    def present(self, *, head: int, held: Collection[str], limit: int, join: int) -> Lane | None:
        """What those furthest ahead run next, with their shadows and the branches. `held`: those to leave
        alone for now, because they failed just before or are being replayed."""
        shadows = self.shadows
        lane = present_lane(
            self._shadowed,
            self._all(),
            absent=self.absent.union(held, shadows.idle(self.progress, self.absent.union(held))),
            coverage=self.coverage,
            head=head,
            limit=limit,
            join=join,
        )
        return self.branches.beside(lane, self.graph, self.front(), held) if self.branches.homes else lane

    def branch(self, wanted: Mapping[str, float], flows: Flows) -> bool:
        """Decide again which branches there are: see `Branches.look`."""
        standing = Standing(self._reach(), self.absent, self.restore, self.homes, self.progress)
        return self.branches.look(wanted, standing, flows)

    def replay(self, *, held: Collection[str], epochs: int, beside: int = 0) -> Lane | None:
        """What those next behind them run next; `held` as for `present`, beside as for `replay_lane`. Shadows
        come after all partitions, since no query waits for them."""
        shadows = self.shadows
        lane = replay_lane(
            self.topology,
            self.progress,
            absent=self.absent.union(held),
            coverage=self.coverage,
            epochs=epochs,
            homes=self.homes,
            beside=beside,
        )
        if lane is not None or not shadows.homes:
            return lane
        return replay_lane(
            self._shadowed,
            self._all(),
            absent=self.absent.union(held, shadows.idle(self.progress, self.absent.union(held))),
            coverage=self.coverage,
            epochs=epochs,
            homes={**self.homes, **shadows.homes},
            beside=beside,
        )

    def of_shadows(self, lane: Lane) -> bool:
        """Whether only shadows advance in this lane; what else runs in it does so for them."""
        return all(lane.end(name) <= self.progress.get(name, lane.last) for name in lane.starts)

    def _all(self) -> dict[str, int]:
        """The progress of everything that has a name in the view with shadows."""
        return {**dict.fromkeys(self.shadows.missing, 0), **self.progress, **self.shadows.progress}

    def contradicts(self, lane: Lane | None) -> bool:
        """Whether this lane would compute again what need not come out as it did before: in a fork, or in a
        partition that was put back behind others which have consumed it. Then all have to start again from
        the checkpoint."""
        if lane is None or self.topology.deterministic:
            return False
        forks = any(start < self.progress[partition] for partition, start in lane.starts.items())
        return forks or consumed_before(self.topology, lane.starts, self.progress)

    def start_again(self) -> None:
        self.put_back(self.topology.partitions, self.checkpoint)

    def whole(self, lane: Lane | None, epoch: int) -> bool:
        """Whether after this lane every partition stands at `epoch`, so that a checkpoint can be taken."""
        if self.absent:
            return False
        running = lane.starts.keys() if lane is not None else frozenset()
        return all(
            reached == epoch or (reached < epoch and partition in running)
            for partition, reached in self.progress.items()
        )

    def take(
        self,
        lane: Lane | None,
        reached: Mapping[str, int],
        *,
        told: Mapping[str, int],
        head: int,
        restored: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """A job has ended. `reached`: last epoch applied by each partition, and copy, that advanced without
        error. told: the progress of all of them that its tasks were told; restored: the checkpoints."""
        for partition, epoch in reached.items():
            if partition in self.progress:
                self.progress[partition] = max(self.progress[partition], epoch)
                self.restore.pop(partition, None)
        shadows = {name: epoch for name, epoch in reached.items() if is_shadow(name)}
        self.shadows.take(shadows, restored, self.progress)
        self.branches.take(lane, {name: epoch for name, epoch in reached.items() if is_branch(name)})
        self._reached = None
        if self.buffering and lane is not None:
            self._buffered(lane, told)
        if not self.caught_up and self.front() >= head - 1:
            self.caught_up = True

    def _buffered(self, lane: Lane, told: Mapping[str, int]) -> None:
        """The outputs for targets that do not run in this lane, or not so far, are in buffers now."""
        links = links_of(self.topology)
        for operator, partitions in links.partitions.items():
            for link in links.outputs[operator]:
                names = links.partitions[link.other]
                waiting = [i for i, name in enumerate(names) if name not in lane.starts or name in lane.ends]
                if not waiting:
                    continue
                for index, source in enumerate(partitions):
                    start = lane.starts.get(source)
                    if start is None:
                        continue
                    last = min(lane.end(source), self.progress[source])
                    for other in waiting if link.ranges is None else link.ranges[index]:
                        target = names[other]
                        if target not in lane.starts or target in lane.ends:
                            first = max(start, told[target], lane.ends.get(target, 0)) + 1
                            self.coverage.add((source, target), first, last, self.homes.get(source, ""))

    def _reach(self) -> dict[str, int]:
        """Computed once after each change: several questions are asked of it in every turn."""
        if self._reached is None:
            self._reached = reaches(self.topology, self.progress, self.absent)
        return self._reached
