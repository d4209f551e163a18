"""The decisions of the epoch loop: events in, instructions out. Pure.

A turn begins with `TurnBegun`. Each instruction that has an answer is the last of its list, and its answer
leads to the next list, until one ends with `AwaitNews`, nothing, or the end of the run. Between any two
instructions the driver may die; a new machine then starts from what was recorded.

The driver carries the instructions out with Spark, ZooKeeper and files, the exact simulation with
dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from domain.execution.adoption import PlanAdoption, deployed_since, refusal
from domain.execution.bounded_progress import BoundedProgress
from domain.execution.catching_up import CatchingUp
from domain.execution.checkpoints import Checkpoints
from domain.execution.draining import Draining
from domain.execution.faults import Faults
from domain.execution.instructions import (
    AcknowledgementsRead,
    AwaitNews,
    CancelReplay,
    CheckpointPointed,
    End,
    EpochsPlanned,
    Event,
    GiveUp,
    HandedOver,
    HandOver,
    Instruction,
    JobEnded,
    JobFailed,
    LeaveOut,
    LookAgain,
    MakeWay,
    Measured,
    Note,
    PlaceTasks,
    PlanEpochs,
    PointTo,
    Publish,
    ReadAcknowledgements,
    RecordPlan,
    RecordPosition,
    ReplayEnded,
    ReplayFailed,
    Retire,
    Sleep,
    StartInput,
    StartReplay,
    TasksPlaced,
    TellProblem,
    TurnBegun,
)
from domain.execution.job import PartitionReport, RunJob, TaskReport, slowest_tasks
from domain.execution.job_sizes import AHEAD, Hurry, JobSizes
from domain.execution.lanes import Lane
from domain.execution.leaving import Leaving
from domain.execution.left_out import LeftOut
from domain.execution.progress import Position, ProgressTracker
from domain.execution.reach import blocked_partitions
from domain.execution.replay import Replay, Running, reached
from domain.execution.shadow_turns import ShadowTurns
from domain.execution.slowness import Slowness
from domain.execution.tentative_turns import TentativeTurns
from domain.messages import DriverState, Plan
from domain.topology import Topology
from domain.topology.copies import branch_of, is_branch, is_copy, is_shadow

REPORT_INTERVAL = 1.0
# Replay from buffers is cheap: a job may replay this many times `catch_up_epochs`.
BESIDE = 4
# Where one executor is lost others may be: pinning to one that Spark misses only later costs seconds.
SETTLE = 0.3
# Seconds from which the log tells where the time of a job went.
SLOW_JOB = 3.0
MAX_FAILURES = 5
REPEATED = "It is repeated; see the driver's log if it goes on failing."
MINUTE = 60.0
MOST_WAITS = 30.0
"""Seconds of input that count as waiting, at most: who was down for an hour is not overloaded for that."""
STUCK = 1.25
"""Load of a topology that cannot arrive."""
TRIMMED = 16
"""Epochs after which what is older goes, where there are no checkpoints after which it could."""
# More Spark jobs than one driver runs in its life.
JOBS_A_LIFE = 10**9


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the epoch log says when a driver starts. It names the epochs `oldest` to `head`, of
    which the newest is `final` and `drained` epochs after the end of the input. life: how many drivers have
    begun, this one included. generation: of the plan applied last, which put the partitions on the nodes in
    `homes`."""

    head: int = 0
    oldest: int = 1
    final: bool = False
    drained: int = 0
    life: int = 1
    position: Position = field(default_factory=Position)
    generation: int = 0
    homes: dict[str, str] = field(default_factory=dict)


class EpochMachine:
    """`tracker` knows how far each partition is and what to run next. plan: the one in force, with what
    shadows took over since. reachable: whether any of its nodes is. realtime: epochs fall due by the
    clock."""

    def __init__(
        self, topology: Topology, recorded: Recorded, checkpoints: Checkpoints, *, realtime: bool, at: float
    ) -> None:
        self.topology = topology
        self.checkpoints = checkpoints
        progress = BoundedProgress if topology.spec.bounded else ProgressTracker
        self.tracker = progress(topology, recorded.position, recorded.homes)
        self.sizes = JobSizes(
            topology.spec.epoch_interval,
            topology.spec.catch_up_epochs,
            BESIDE * topology.spec.catch_up_epochs,
        )
        self.replay = Replay()
        self.slowness = Slowness()
        self.faults = Faults()
        self._leaving = Leaving()
        self.shadows = ShadowTurns(topology, self.tracker)
        self.tentative = TentativeTurns(topology, self.tracker)
        self.plan: Plan | None = None
        self.reachable = False
        self.head, self.draining = recorded.head, Draining(topology)
        self.draining.planned(
            head=recorded.head, ended=recorded.final, final=recorded.final, epochs=recorded.drained
        )
        self.recorded = recorded.position
        self.generation = recorded.generation
        # A checkpoint that the log does not know of is not used: all would start again from the one before
        # it, and without determinism it may be of a history that was undone.
        self._unknown = checkpoints.gone_back(
            checkpoint=recorded.position.checkpoint, generation=recorded.generation, at=at
        )
        # Generation of the newest plan, if it cannot be applied; else 0.
        self.refused = 0
        self._realtime = realtime
        self._adoption = PlanAdoption(at)
        self._oldest = recorded.oldest
        self._life = recorded.life
        self._next_due = float("inf")
        self._hurry = Hurry()
        self._catching_up = CatchingUp(topology.spec.epoch_interval)
        # Snapshots under numbers up to this one may be of another history.
        self._barred = 0 if topology.deterministic else recorded.head
        # Files of a driver that died may be there.
        self._drop_buffers = True
        self._trim = False
        self._trimmed = recorded.position.committed
        # The epoch after which all changed keys were left to be stored, where the guarantee is bounded.
        self._saved: int | None = None
        self._left_out = LeftOut(topology.queries if topology.spec.bounded else (), head=recorded.head)
        self._jobs = self._failures = 0
        self._reported_at = 0.0
        self._news = TurnBegun(at=at, plan=None)
        self._running: Running | None = None
        # The plan whose moves are under way.
        self._moving: Plan | None = None
        # The plan in force, as it was made.
        self._made: Plan | None = None
        self._worked = False
        self._handlers: dict[type, Callable[[Any], list[Instruction]]] = {
            TurnBegun: self._turn,
            HandedOver: self._handed_over,
            TasksPlaced: self._placed,
            EpochsPlanned: self._planned,
            JobEnded: self._job_ended,
            JobFailed: self._job_failed,
            ReplayEnded: self._replay_ended,
            ReplayFailed: self._replay_failed,
            AcknowledgementsRead: self._acknowledged,
            CheckpointPointed: self._pointed,
        }

    def handle(self, event: Event) -> list[Instruction]:
        """What is to be done now, in this order."""
        return self._handlers[type(event)](event)

    # ---- plans and nodes -------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        return self.topology.spec.bounded

    def _turn(self, news: TurnBegun) -> list[Instruction]:
        if self.bounded:
            news = replace(news, replicas={}, tentative={})
        self._news = news
        if not news.stopped:
            self._leaving.stay()
        elif self._leaves(news.at):
            return [End("stopped")]
        if news.plan is not None and deployed_since(news.plan, self.generation):
            return [MakeWay(f"plan {news.plan.generation} is of a later deployment")]
        told, self._unknown = [*self._unknown, *self._judge(news.plan)], []
        if self.replay.running is not None and self._in_the_way(news):
            return [*told, *self._end_replay(), *self._worked_off(news.at, worked=False)]
        return [*told, *self._follow(news)]

    def _leaves(self, at: float) -> bool:
        """Whether a topology that is to stop has nothing more to do: its last checkpoint is complete, or
        there can be none."""
        position, checkpoints = self.recorded, self.checkpoints
        placed = self.plan is not None and self.reachable and not self._failures
        well = not (self.tracker.absent or position.ahead or position.restore or self.faults.errors)
        return self._leaving.ends(
            at,
            well=placed and (well or self.bounded),
            complete=position.committed == self._kept,
            pending=checkpoints.pending is not None,
            generation=self.generation,
            timeout=checkpoints.timeout,
        )

    @property
    def _kept(self) -> int | None:
        """The epoch of the newest checkpoint; after which all changed keys were left to be stored where there
        are none."""
        return self._saved if self.bounded else self.checkpoints.latest

    def _in_the_way(self, news: TurnBegun) -> bool:
        """Whether the replay under way has to end before anything else: tasks are to be pinned anew, state is
        to be handed over or put back, or buffers are to be dropped that it may read."""
        plan = self._as_recorded() if self.refused else self._due(news)
        replicas = self.plan is not None and self.shadows.differ(news)
        return self.replay.void or self._drop_buffers or news.misplaced or plan is not None or replicas

    def _end_replay(self) -> list[Instruction]:
        """What is not deterministic is not ended without need: all partitions would have to start again."""
        if self.replay.told or not (self.topology.deterministic or self.replay.void):
            return []
        self.replay.told = True
        return [CancelReplay()]

    def _judge(self, plan: Plan | None) -> list[Instruction]:
        """Whether a plan that is still to be applied can be. What it starts from is held until it is; if that
        was not kept, the plan is refused for good, and told so once: only a newer plan can help."""
        known = plan is None or plan.generation <= self.generation
        self.checkpoints.held = None
        if plan is None or known or self.bounded:
            self.refused = 0
            return []
        origin, restorable = self.tracker.origin(plan), self._restorable()
        if origin in restorable:
            self.refused, self.checkpoints.held = 0, origin
            return []
        if self.refused == plan.generation:
            return []
        self.refused = plan.generation
        fields = {"generation": plan.generation, "checkpoint": origin}
        return [refusal(plan, origin, restorable), Note("plan refused", fields, warning=True)]

    def _restorable(self) -> list[int]:
        """The checkpoints of the present history whose later epochs are all in the log, 0 being the empty
        state; ascending. Where the guarantee is bounded a plan may always start from the empty state."""
        if self.bounded:
            return [0]
        known = {0, self.tracker.checkpoint, *self.checkpoints.kept}
        return sorted(one for one in known if one >= self.head or one + 1 >= self._oldest)

    def _follow(self, news: TurnBegun) -> list[Instruction]:
        """Go over to the newest plan when that can be done, and place tasks by the one in force. A plan puts
        back what has failed: where there are shadows, they take over before."""
        newer = news.plan is not None and news.plan.generation > self.generation
        replicated = newer and bool(self.tracker.shadows.homes)
        if replicated and self.plan is not None and news.misplaced:
            plan = None
        elif replicated and self.plan is None and news.ready:
            plan = self._as_recorded()
        else:
            plan = self._as_recorded() if self.refused else self._due(news)
        done: list[Instruction] = []
        if plan is not None:
            known = plan.generation <= self.generation
            moves = {} if known else self.tracker.moves(plan, placed=self.plan is not None)
            if moves:
                self._moving = plan
                return self._hand_over(plan, moves)
            done = self._adopt(plan, news)
        if self.plan is None:
            return [*done, *self._plan_epochs(news.at)]
        return [*done, *self._place_shadows(news), self._place_tasks()]

    def _place_shadows(self, news: TurnBegun) -> list[Instruction]:
        done = self.shadows.place(news)
        self.recorded = self.tracker.position if done else self.recorded
        return done

    def _place_tasks(self) -> PlaceTasks:
        assert self.plan is not None  # noqa: S101 - asked for under a plan
        return self.shadows.tasks(self.plan)

    @property
    def placed(self) -> Plan:
        """The plan in force with the shadows and branches, each where it is."""
        assert self.plan is not None  # noqa: S101 - asked for under a plan
        return self.shadows.beside(self.plan)

    def _hand_over(self, plan: Plan, moves: dict[str, str]) -> list[Instruction]:
        """No epoch runs meanwhile, so the state that arrives is the newest there is."""
        self._jobs += 1
        done = self.shadows.make_room(plan, moves)
        self.recorded = self.tracker.position if done else self.recorded
        hand_over = HandOver(
            plan=plan,
            sources=moves,
            epochs={partition: self.tracker.held(partition) or 0 for partition in moves},
            since=None if self.bounded else self.tracker.checkpoint,
            attempt=self._attempt(),
        )
        return [*done, hand_over]

    def _handed_over(self, event: HandedOver) -> list[Instruction]:
        """What could not be handed over starts from the checkpoint on its new node."""
        plan = self._moving
        assert plan is not None  # noqa: S101 - what is answered was asked for
        self._moving = None
        done = self._adopt(plan, self._news, event.partitions)
        if event.partitions:
            done.append(Note("state handed over", {"partitions": len(event.partitions)}))
        return [*done, *self._place_shadows(self._news), self._place_tasks()]

    def _due(self, news: TurnBegun) -> Plan | None:
        answering = self.plan is not None and self.tracker.answering()
        hurried = self._realtime and not self.final and answering
        absent = self.tracker.absent if self.plan is not None else ()
        news = self.shadows.known(news, self.generation, absent)
        return self._adoption.due(
            news, self.plan, absent=self.tracker.absent, hurried=hurried, next_due=self._next_due
        )

    def _as_recorded(self) -> Plan | None:
        """What a driver that was started anew goes on with where the newest plan cannot be applied."""
        if self.plan is not None or not self.tracker.homes:
            return None
        return Plan(generation=self.generation, kind="recover", assignment=dict(self.tracker.homes))

    def _adopt(self, plan: Plan, news: TurnBegun, carried: Collection[str] = ()) -> list[Instruction]:
        """carried: partitions whose state is on the nodes of the plan already."""
        known = plan.generation <= self.generation
        self._adoption.adopted()
        same = news.plan is not None and news.plan.generation == plan.generation
        self.plan, self._made = plan, news.plan if same else plan
        self.tracker.adopt(plan, refresh=not known, carried=carried)
        done: list[Instruction] = []
        if not known:
            self.generation, self.recorded = plan.generation, self.tracker.position
            self._hurry.begin(news.at)
            self.replay.gather_anew()
            self._catching_up.begin(news.at)
            self.slowness.forget(self.tracker.homes.values())
            done += self.checkpoints.gone_back(
                checkpoint=self.tracker.checkpoint, generation=plan.generation, at=news.at
            )
            done.append(RecordPlan(plan.generation, self.recorded, self.tracker.homes))
        elif news.latest_generation >= plan.generation:
            self.tracker.stop_buffering()
        self.faults.clear()
        self.shadows.faults.clear()
        self.tentative.faults.clear()
        fields = {"generation": plan.generation, "plan_kind": plan.kind, "rollback": plan.rollback}
        return [
            *done,
            StartInput(),
            LookAgain(trusted=True),
            *self.checkpoints.fail(f"superseded by plan {plan.generation}", news.at),
            Note("plan adopted", fields),
        ]

    def _placed(self, event: TasksPlaced) -> list[Instruction]:
        self.reachable = event.reachable
        done = self._absent(event)
        moved = self._take_over() or self._branch() if self.replay.running is None else []
        return [*done, *moved] if moved else [*done, *self._plan_epochs(event.at)]

    def _absent(self, event: TasksPlaced) -> list[Instruction]:
        """Note which partitions and copies cannot run."""
        done: list[Instruction] = []
        if event.absent is None:
            return done
        shadows = {name for name in event.absent if is_shadow(name)}
        branches = {name for name in event.absent if is_branch(name)}
        gone = event.absent - shadows - branches
        self.tracker.shadows.absent, self.tracker.branches.absent = shadows, branches
        changed = self.tracker.set_absent(gone)
        if changed:
            self.sizes.unfamiliar()
            self.slowness.clear()
            self._catching_up.begin(event.at)
        if changed and gone:
            cause = "nodes were lost before every partition acknowledged"
            done += self.checkpoints.fail(cause, event.at)
            fields = {"count": len(gone), "partitions": sorted(gone)[:10]}
            done.append(Note("partitions absent", fields, warning=True))
        return done

    def _take_over(self) -> list[Instruction]:
        assert self.plan is not None  # noqa: S101 - tasks were placed by it
        made = self._made if self._made is not None else self.plan
        self.plan, done = self.shadows.take_over(self.plan, made, self._news.ready)
        if not done:
            return []
        self.recorded = self.tracker.position
        return [*done, self._place_tasks()]

    def _branch(self) -> list[Instruction]:
        """Have what lacks an input go on beside its exact state."""
        done = self.tentative.look(self._news)
        return [*done, self._place_tasks()] if done else []

    def _plan_epochs(self, at: float) -> list[Instruction]:
        if self._news.paused or self._leaving.under_way:
            return self._work(at)
        return [PlanEpochs(self.tracker.front(), self.draining.follows(self.tracker.committed))]

    def _planned(self, event: EpochsPlanned) -> list[Instruction]:
        self.head, self._next_due = event.head, event.next_due
        self.draining.planned(head=event.head, ended=event.ended, final=event.final, epochs=event.drained)
        return self._work(event.at)

    @property
    def final(self) -> bool:
        """Whether no epoch follows the newest."""
        return self.draining.over(self.tracker.committed)

    # ---- Spark jobs ------------------------------------------------------------------------------

    def _work(self, at: float) -> list[Instruction]:
        """Run what is due, and beside it what those behind have missed."""
        if self.plan is None or not self.reachable or self.checkpoints.stops:
            return self._worked_off(at, worked=False)
        lane, done = (None, []) if self._leaving.under_way else self._lanes(at)
        finishing = self._finishing()
        if lane is None and not (finishing and self.checkpoints.pending is None):
            return [*done, *self._worked_off(at, worked=False)]
        request = self._news.request
        last = lane.last if lane is not None else self.recorded.committed
        # At the end of the input what failed to leave its snapshot has nothing else to try again.
        failing = self.faults.held(at) if finishing else self.faults.errors
        self.checkpoints.asked(request)
        wanted = (finishing or self.checkpoints.wanted(at)) and not failing
        # What is computed anew must not be taken for what was under this number before. At the end of a
        # bounded input there is no later number.
        used = self.checkpoints.latest if finishing else max(self.checkpoints.highest, self._barred)
        punctuated = wanted and last > used and self.tracker.whole(lane, last)
        job = self._job(lane, checkpoint=last if punctuated else 0)
        self._running = Running(job, at, last, punctuated, request)
        self._left_out.begun(lane)
        return [*done, job]

    def _finishing(self) -> bool:
        """Whether no epoch follows what is committed, and no checkpoint has that yet."""
        over = self._leaving.under_way or (self.final and self.recorded.committed == self.head)
        return over and (self._kept is None or self._kept < self.recorded.committed)

    def _lanes(self, at: float) -> tuple[Lane | None, list[Instruction]]:
        """What the next job of the present runs, and the start of a replay if one is to begin beside it."""
        if self.replay.running is not None:
            return self._beside_replay(at), []
        held, apart = self._held(at), self._apart()
        join = self._join(at)
        lane = self._present(held | apart, limit=self.sizes.at_once, join=join)
        replay = self._next_replay(lane, held, at)
        if self.tracker.contradicts(lane) or self.tracker.contradicts(replay):
            done = self._start_again("partitions have fallen behind inputs that are not deterministic", at)
            return self._present(held, limit=self.sizes.at_once, join=join), done
        if replay is None:
            return lane, []
        if self._drop_buffers:  # with nothing beside it that reads or writes some
            return lane or replay, []
        waited_for = apart or (self._replay_first() and not self.tracker.of_shadows(replay))
        job = self._job(replay, checkpoint=0, spare=not waited_for)
        self.replay.begin(job, at)
        return self._beside_replay(at), [StartReplay(job)]

    def _beside_replay(self, at: float) -> Lane | None:
        """What is due of the present while a replay is under way."""
        limit, apart = self.sizes.at_once, self._apart()
        if apart:
            self._hurry.begin(at)  # what waits for a slow node comes no nearer, and is not waited for
        self._hurry.look(self.tracker.missing(), at)
        advancing = self.replay.advancing()
        if self._replay_first() and not all(map(is_shadow, advancing)):
            limit = min(limit, int(self.replay.credit))
        held = self._held(at) | advancing | apart
        return self._present(held, limit=limit, join=0) if limit > 0 else None

    def _held(self, at: float) -> set[str]:
        """Partitions and copies to leave alone now."""
        return self.faults.held(at) | self.shadows.faults.held(at) | self.tentative.faults.held(at)

    def _present(self, held: set[str] | frozenset[str], *, limit: int, join: int) -> Lane | None:
        slow = {name for name, node in self.tracker.copies.items() if node in self.slowness.nodes}
        return self.tracker.present(head=self.head, held=held | slow, limit=limit, join=join)

    def _apart(self) -> frozenset[str]:
        """Partitions on slow nodes, if there are queries that need none of them: the present runs without
        them, and they come after it in replays. What the others send them is buffered from then on."""
        if not (self.slowness.nodes and self._realtime and self.topology.replays):
            return frozenset()
        apart = frozenset(p for p, node in self.tracker.homes.items() if node in self.slowness.nodes)
        blocked = blocked_partitions(self.topology, apart | self.tracker.absent)
        if blocked.issuperset(self.topology.queries):
            return frozenset()
        self.tracker.start_buffering()
        return apart

    def _next_replay(self, lane: Lane | None, held: set[str], at: float) -> Lane | None:
        """What those behind run next; nothing where some of them run in `lane`, of the present."""
        if at < self.replay.not_before or self.faults.replay_held(at):
            return None
        front, progress = self.tracker.front(), self.tracker.told()
        running = (name for name in lane.starts if not is_branch(name)) if lane is not None else ()
        if any(progress[name] < front for name in running):
            return None
        replay = self.tracker.replay(held=held, epochs=self.sizes.replay, beside=self.sizes.most)
        return None if replay is not None and self._gathers(at) else replay

    def _gathers(self, at: float) -> bool:
        """Whether a replay waits a moment for partitions on nodes that are about to work, while queries give
        output: one of them all takes about as long as one of the first, and does not have to end when others
        come."""
        about = {p for p, node in self.tracker.homes.items() if node in self._news.warming}
        if self._replay_first() or about.isdisjoint(self.tracker.absent):
            return False
        return self.replay.gathers(at)

    def _join(self, at: float) -> int:
        """Epochs that partitions may lack to run with the present."""
        if self._replay_first():
            return self.sizes.at_once
        return 1 if self._hurry.keeps(at) else self.sizes.join

    def _replay_first(self) -> bool:
        """Whether no query gives output that could be late, or those behind would never arrive."""
        return self._hurry.now or not (self._realtime and self.tracker.answering())

    def _start_again(self, cause: str, at: float) -> list[Instruction]:
        if self.bounded:
            return []  # there is no checkpoint to start from; what is computed twice may come out otherwise
        self.tracker.start_again()
        self.replay.void = True
        self._barred = self.head
        self.recorded = self.tracker.position
        return [
            Note("all partitions start again from the checkpoint", {"cause": cause}, warning=True),
            *self.checkpoints.fail(cause, at),
            # On disk before anything is computed again: the old position belongs to the history undone here.
            RecordPosition(self.recorded, durable=True),
        ]

    def _fall_back(self, damaged: Mapping[str, int], at: float) -> list[Instruction]:
        """What storage holds of the checkpoint is damaged, so all start again from an older one. damaged:
        partition -> the newest that is whole. Another partition may find that this one is damaged, too; then
        it is the turn of the next. Without any, the partitions go on trying."""
        newest = min(damaged.values(), default=-1)
        older = [one for one in self._restorable() if one <= newest and one < self.tracker.checkpoint]
        if not older:
            return []
        before, self.tracker.checkpoint = self.tracker.checkpoint, older[-1]
        self.faults.forget(damaged)
        cause = f"checkpoint {before} is damaged, and {older[-1]} is the newest before it that is whole"
        done = self.checkpoints.fail(cause, at)
        back = self.checkpoints.gone_back(checkpoint=older[-1], generation=self.generation, at=at)
        return [*done, *back, *self._start_again(cause, at)]

    def _job(self, lane: Lane | None, *, checkpoint: int, spare: bool = False) -> RunJob:
        """The job that runs this lane. checkpoint: the epoch at which it leaves snapshots, 0 for none. spare:
        in the time that others leave."""
        tracker = self.tracker
        self._jobs += 1
        running = lane.starts.keys() | lane.returns.keys() if lane is not None else frozenset()
        # What a replay under way works on is left alone.
        trim = self._trim and self.replay.running is None
        keep, kept = tracker.needed(self.checkpoints.latest)
        restore = {p: k for p, k in tracker.restore.items() if p in running or checkpoint}
        restore |= {s: k for s, k in tracker.shadows.restore.items() if s in running}
        return RunJob(
            lane=lane,
            progress=tracker.told(),
            restore=restore,
            checkpoint=checkpoint,
            trim_below=keep if trim else 0,
            keep=kept if trim else [],
            buffering=tracker.buffering,
            drop_buffers=self._drop_buffers,
            attempt=self._attempt(),
            spare=spare,
            older=[one for one in self._restorable() if one < tracker.checkpoint] if restore else [],
            fidelity={p: one for p, one in tracker.branches.fidelity.items() if branch_of(p) in running},
            origins={b: epoch for b, epoch in tracker.branches.origins.items() if b in running},
            save=self.bounded and lane is None,
            spread=self.checkpoints.spread if checkpoint else 0.0,
        )

    def _attempt(self) -> int:
        """A bounded epoch that runs again may do so without a partition that was lost meanwhile."""
        return 0 if self.topology.replays else self._life * JOBS_A_LIFE + self._jobs

    def _job_failed(self, event: JobFailed) -> list[Instruction]:
        """A job is repeatable, so it is tried again, after a pause that grows."""
        done: list[Instruction] = []
        if event.cancelled:
            done += [Sleep(SETTLE), LookAgain()]
            if not event.placing and not self.topology.deterministic:
                done += self._start_again(
                    "a node went away during a job, and operators are not deterministic", event.at
                )
        else:
            self._failures += 1
            if not event.placing and self._running is not None and not self.topology.deterministic:
                # Snapshots of this attempt may have been left under this number.
                self._barred = max(self._barred, self._running.last)
            done.append(TellProblem(event.where or "Spark job", event.error, event.hint or REPEATED))
            if self._failures >= MAX_FAILURES:
                return [*done, _given_up(f"{event.where}: {event.error}" if event.where else event.error)]
            done += [LookAgain(), Sleep(_pause(self._failures))]
        return done if event.placing else [*done, *self._worked_off(event.at, worked=True)]

    def _job_ended(self, event: JobEnded) -> list[Instruction]:
        running = self._running
        assert running is not None  # noqa: S101 - one was told to run
        self._failures = 0
        if event.disturbed and not self.topology.deterministic:
            # What Spark ran a second time came out otherwise than what others had already received.
            cause = "tasks of a job may have run twice, and operators are not deterministic"
            return [*self._start_again(cause, event.at), *self._worked_off(event.at, worked=True)]
        if running.job.drop_buffers:
            self._drop_buffers = False
            self.tracker.dropped()
        self._trim = self._trim and not running.job.trim_below
        front = self.tracker.front()
        done = self._take(running.job, event)
        self._learn(running, event, front)
        if not self.tracker.absent and (self.replay.running is None or self.slowness.nodes):
            self.slowness.observe(event.reports)
        done += [self._publish(), self._measured(event.at, running, event.reports)]
        if event.at - running.started > SLOW_JOB:
            done.append(_took(running, event, self.tracker.missing()))
        if running.punctuated:
            done += self._punctuated(running, event)
        if self.bounded:
            done += self._forget_older(running)
        return [*done, *self._worked_off(event.at, worked=True)]

    def _forget_older(self, running: Running) -> list[Instruction]:
        """Nothing goes back where the guarantee is bounded: older states and epochs are of no use."""
        committed = self.recorded.committed
        if running.job.save:
            self._saved = committed
        if committed - self._trimmed < TRIMMED:
            return []
        self._trim, self._trimmed = True, committed
        self._oldest = max(self._oldest, committed)
        return [Retire([], committed, self.checkpoints.latest)]

    def _take(self, job: RunJob, event: JobEnded | ReplayEnded) -> list[Instruction]:
        """What the tasks of a job said."""
        tracker, at = self.tracker, event.at
        done: list[Instruction] = []
        results: dict[str, PartitionReport] = {}
        for report in event.reports:
            if report.misplaced:
                fields = {"slot": report.slot, "stage": report.level, "ran_on": report.node}
                done += [Note("task misplaced", fields, warning=True), LookAgain()]
            results.update(report.partitions)
            done += self.faults.forks(report.forks, at)
            tracker.coverage.forget(report.unbuffered)
        advanced, before = reached(results, job.progress), tracker.committed
        tracker.take(job.lane, advanced, told=job.progress, head=self.head, restored=job.restore)
        done += self._leave_out(advanced, before)
        shadows = {p: one for p, one in results.items() if is_shadow(p)}
        branches = {p: one for p, one in results.items() if is_branch(p)}
        results = {p: one for p, one in results.items() if not is_copy(p)}
        self.draining.take(results)
        done += self.draining.problems(tracker.committed)
        done += self.faults.take(results, at)
        done += self.shadows.reported(shadows, at)
        done += self.tentative.reported(branches, at)
        begun_anew = tracker.shadows.lost(shadows, tracker.checkpoint)
        # A partition at the end of its input would never find out by itself.
        missing = {p for p, r in results.items() if r.missing}.union(*(r.lost for r in event.reports))
        if missing:
            tracker.lost_state(missing)
            self.replay.void = True
            names = ", ".join(sorted(missing)[:5])
            done += self.checkpoints.fail(f"{names} had to be restored", at)
        damaged = {p: r.instead for p, r in results.items() if r.instead is not None}
        done += self._fall_back(damaged, at)
        position = tracker.position
        if position != self.recorded:
            self.recorded = position
            done.append(RecordPosition(position, durable=bool(missing or begun_anew)))
        return done

    def _leave_out(self, advanced: Mapping[str, int], before: int) -> list[Instruction]:
        passed = self._left_out.passed(advanced, before=before, front=self.tracker.committed)
        if not passed:
            return []
        self._jobs += 1  # a job in the place of those that were given up
        return [LeaveOut(passed, self._attempt())]

    def _learn(self, running: Running, event: JobEnded, front: int) -> None:
        """What a job says of the time that the present takes. front: epoch of the partitions furthest ahead
        before it."""
        epochs, seconds = self.tracker.front() - front, event.at - running.started
        if running.job.lane is None:
            return
        # A lane may reach back for a fork; what counts is how much further it has come.
        self.sizes.advanced(epochs=epochs, seconds=seconds)
        self.tentative.flows.observe(running.job.lane, event.reports, running.job.progress)
        if epochs > 0:
            self.replay.credit = max(0.0, self.replay.credit - epochs)
            self.sizes.worked(
                seconds=seconds,
                working=sum(one.working for one in slowest_tasks(event.reports)),
                epochs=epochs,
            )

    # ---- replay ----------------------------------------------------------------------------------

    def _replay_ended(self, event: ReplayEnded) -> list[Instruction]:
        advanced = frozenset(name for name in self.replay.advancing() if not is_shadow(name))
        running = self.replay.end()
        self.replay.failures = 0
        if self.replay.void:
            return []
        if event.disturbed and not self.topology.deterministic:
            cause = "tasks of a replay may have run twice, and operators are not deterministic"
            return self._start_again(cause, event.at)
        assert running.job.lane is not None  # noqa: S101 - it was started for one
        epochs = running.job.lane.epochs
        self.sizes.replayed(epochs=epochs, seconds=event.took, beside=event.at - running.started)
        if self._replay_first():
            self.replay.credit += AHEAD * epochs
        self.replay.ended(running, event.reports)
        if self.slowness.nodes and not running.job.spare:
            self.slowness.observe(event.reports)
        done = self._take(running.job, event)
        if advanced:
            self._catching_up.note(advanced, self.tracker.lacks(self.head), event.at)
        return [*done, _took(running, event, self.tracker.missing())]

    def _replay_failed(self, event: ReplayFailed) -> list[Instruction]:
        """It is repeatable, like any job, so it is tried again: at once if it had to make way, otherwise
        after a pause that grows."""
        replay = self.replay
        replay.end()
        if event.cancelled:
            if not replay.told:
                replay.not_before = event.at + SETTLE
            if replay.void or self.topology.deterministic:
                return []
            cause = "a node went away during a replay, and operators are not deterministic"
            return self._start_again(cause, event.at)
        replay.failures += 1
        replay.not_before = event.at + _pause(replay.failures)
        told = TellProblem("Spark job", event.error, REPEATED)
        if replay.failures >= MAX_FAILURES:
            return [told, _given_up(event.error)]
        return [told, LookAgain()]

    # ---- checkpoints -----------------------------------------------------------------------------

    def _punctuated(self, running: Running, event: JobEnded) -> list[Instruction]:
        assert self.plan is not None  # noqa: S101 - the job ran under it
        epoch, at = running.last, event.at
        if self._leaving.under_way:
            self._leaving.begun = self.generation
        done: list[Instruction] = [
            *self.checkpoints.started(
                checkpoint=epoch,
                generation=self.plan.generation,
                attempt=running.job.attempt,
                request=running.request,
                at=at,
            )
        ]
        behind = [partition for partition, reached in self.tracker.progress.items() if reached < epoch]
        # Some may have reached the epoch and been unable to leave their snapshot.
        reports = [item for report in event.reports for item in report.partitions.items()]
        failed = {p: r.error for p, r in reports if r.error and not is_copy(p)}
        if behind:
            cause = f"{', '.join(sorted(behind)[:5])} did not reach epoch {epoch}"
            done += self.checkpoints.fail_newest(cause, at)
        elif failed:
            partition, error = min(failed.items())
            done += self.checkpoints.fail_newest(f"no snapshot of {partition}: {error}", at)
        return done

    def _worked_off(self, at: float, *, worked: bool) -> list[Instruction]:
        """No job runs now: what is said about the wait, and the checkpoint under way."""
        self._worked = worked
        done: list[Instruction] = []
        waiting = self.plan is not None and self.recorded.committed < self.head
        due = waiting and at - self._reported_at >= REPORT_INTERVAL
        if not worked and (due or self.replay.replayed.epochs):
            done.append(self._measured(at, None, []))
        if (pending := self.checkpoints.pending) is not None:
            return [*done, ReadAcknowledgements(pending.checkpoint, (pending.generation, pending.attempt))]
        return [*done, *self._turn_ended(at, completed=False)]

    def _acknowledged(self, event: AcknowledgementsRead) -> list[Instruction]:
        done: list[Instruction] = [*self.checkpoints.acknowledged(event.acks, event.at)]
        if done and self.checkpoints.pending is not None and _asks_to_point(done):
            return done
        return [*done, *self._turn_ended(event.at, completed=False)]

    def _pointed(self, event: CheckpointPointed) -> list[Instruction]:
        if self.checkpoints.pending is None:
            return []  # it was moved back while a plan was adopted; the turn goes on by itself
        done = self.checkpoints.pointed(accepted=event.accepted, at=event.at)
        return [*done, *self._turn_ended(event.at, completed=event.accepted)]

    def _checkpoint_ended(self, *, completed: bool) -> list[Instruction]:
        self.checkpoints.ended = False
        self._trim = True
        done: list[Instruction] = []
        if completed:
            self._drop_buffers = self._drop_buffers or self.tracker.buffers_kept
            self.tracker.completed(self.checkpoints.latest)
            self.recorded = self.tracker.position
            # On disk before the manifests of older checkpoints go.
            done.append(RecordPosition(self.recorded, durable=True))
        kept = list(self.checkpoints.kept)
        below = min(kept[0] if kept else 0, self.recorded.committed)
        if self.checkpoints.held is not None:
            below = min(below, self.checkpoints.held)
        self._oldest = max(self._oldest, min(below, self.head))
        return [*done, Retire(kept, below, self.checkpoints.latest)]

    # ---- what others see -------------------------------------------------------------------------

    def _turn_ended(self, at: float, *, completed: bool) -> list[Instruction]:
        done = self._checkpoint_ended(completed=completed) if self.checkpoints.ended else []
        at_the_end = self.final and self.recorded.committed == self.head == self._kept
        if at_the_end and self.checkpoints.pending is None:
            return [*done, End("completed")]
        done.append(self._publish())
        if not self._worked:
            done.append(AwaitNews(self._idle(at)))
        return done

    def _idle(self, at: float) -> float:
        """Until the next epoch is due; less while something else may happen."""
        wait = self._next_due - at
        if self.replay.running is not None and wait <= 0:
            wait = 0.1  # for its end, which ends the wait
        if self.checkpoints.pending is not None or self.tracker.absent or self.final:
            wait = min(wait, 0.1) if wait > 0 else 0.1
        return min(max(wait, 0.005), 0.5)

    def state(self) -> DriverState:
        if self.plan is None or (not self.reachable and not self.tracker.absent):
            return "waiting_for_nodes"
        if self._news.paused:
            return "paused"
        if self.tracker.absent or self.faults.errors:
            return "degraded"
        # Where queries give output, what is still to be restored may have to wait for others that replay.
        if self.tracker.restore and self.plan.kind != "deploy" and not self.tracker.answering():
            return "restoring"
        return "replaying" if self.tracker.behind(self.head) else "running"

    def publish(self, state: DriverState) -> Publish:
        """What the driver says of itself in a state."""
        planned = self.plan is not None
        return Publish(
            state=state,
            generation=self.plan.generation if self.plan is not None else 0,
            checkpoint=self.checkpoints.latest,
            absent=sorted(self.tracker.absent) if planned else [],
            behind=self.tracker.behind(self.head) if planned else [],
            refused=self.refused,
            restorable=self._restorable(),
            load=self._load(),
            slow=sorted(self.slowness.nodes),
            catch_up=self._catching_up.seconds(self._news.at),
            not_gaining=self._catching_up.not_gaining(self._news.at),
            error=self.faults.first,
            acting=dict(self.tracker.acting),
            shadows=self.tracker.shadows.status(self.tracker.progress) if planned else {},
            tentative=self.tracker.branches.status() if planned else {},
        )

    def _load(self) -> float:
        """While no query gives output, 0, or `STUCK` where those behind come no nearer. What waits counts as
        if it came within a minute."""
        if not self.tracker.answering():
            return STUCK if self._hurry.now else 0.0
        waits = max(0, self.head - self.tracker.front()) * self.topology.spec.epoch_interval
        return self.sizes.load * (1.0 + min(waits, MOST_WAITS) / MINUTE)

    def _publish(self) -> Publish:
        return self.publish(self.state())

    def _measured(self, at: float, running: Running | None, reports: Sequence[TaskReport]) -> Measured:
        self._reported_at = at
        replayed = self.replay.taken()
        before = running.job.progress if running is not None else self.tracker.progress
        since = replayed.since if replayed.epochs else at
        present = running.job.lane if running is not None else None
        seconds = present.epochs * self.topology.spec.epoch_interval if present is not None else 0.0
        rates, flows = self.tentative.flows.told(seconds)
        return Measured(
            present=present,
            replayed=replayed.epochs,
            reports=[*replayed.reports, *reports],
            before={**before, **replayed.before},
            progress=self.tracker.progress,
            front=self.tracker.front(),
            started=running.started if running is not None else since,
            generation=self.plan.generation if self.plan is not None else 0,
            absent=self.tracker.absent,
            failing=set(self.faults.errors),
            rates=rates,
            flows=flows,
        )


def _asks_to_point(done: list[Instruction]) -> bool:
    return isinstance(done[-1], PointTo)


def _took(running: Running, event: JobEnded | ReplayEnded, missing: int) -> Note:
    """How long a job took, and where the time went. missing: epochs that those behind lack after it."""
    lane, seconds = running.job.lane, event.at - running.started
    name = "slow job"
    if isinstance(event, ReplayEnded):
        name, seconds = "replayed", event.took
    fields: dict[str, Any] = {
        "epochs": f"{lane.first}-{lane.last}" if lane is not None else "",
        "partitions": len(lane.starts) if lane is not None else 0,
        "seconds": round(seconds, 2),
        "slowest": [f"{one.node} {one.working:.2f}" for one in slowest_tasks(event.reports)],
        "missing": missing,
    }
    return Note(name, fields)


def _pause(failures: int) -> float:
    """Seconds until a job is tried again that Spark gave up so many times."""
    return min(0.2 * 2.0**failures, 3.0)


def _given_up(error: str) -> GiveUp:
    return GiveUp(f"{MAX_FAILURES} Spark jobs in a row failed; the last one: {error}")
