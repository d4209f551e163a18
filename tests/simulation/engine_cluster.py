"""Spark, played: executors, jobs stage by stage, and tasks that fail, are lost or run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec

from domain.execution.footprint import footprint_of
from domain.execution.job import Handover, Job, Layout, TaskReport
from spark_jobs.driver.cluster import Executor
from spark_jobs.driver.task_runs import TaskRuns
from spark_jobs.driver.watch import JobCancelledError
from spark_jobs.executor.handover import RECEIVE, SEND, HandoverTask
from spark_jobs.executor.task import REPORT, LevelTask
from tests.simulation.engine_world import DriverKilledError, World

# By the slot that sent them, on their way to one slot.
Messages = list[tuple[int, Any]]


class PlayedAccumulator:
    """Spark's, as the driver sees it: tasks add to it as they end."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, term: int) -> None:
        self.value += term


class PlayedCluster:
    """Spark as the loop sees it: stages of tasks; a node may die before any of them, a task may run twice,
    the driver may be killed after any of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._pinned: list[str] = []
        # Nodes whose executor was given up while they were frozen, and how often that happened to each.
        self.ended: set[str] = set()
        self.lives: dict[str, int] = {}
        # Tasks of a job that was ended early: they may still run, and the driver does not hear of them.
        self.leftover: list[tuple[Any, int, str, Messages]] = []
        self.replaying = self.told = False
        self._replay: Generator[None, None, list[TaskReport]] | None = None
        self._replayed: list[TaskReport] | Exception | None = None

    def executors(self) -> frozenset[Executor]:
        """A node whose executor was given up has another once it is back."""
        self.ended &= self.world.frozen.keys()
        known = {**self.world.nodes, **{n: a for n, a in self.world.frozen.items() if n not in self.ended}}
        return frozenset(Executor(f"{n}/{self.lives.get(n, 0)}", address) for n, address in known.items())

    def ready(self, executors: frozenset[Executor]) -> frozenset[Executor]:
        return executors

    def give_up(self, executors: frozenset[Executor]) -> None:
        for executor in executors:
            name, _, life = executor.id.partition("/")
            assert name in self.world.frozen, "given up although it is there"
            self.ended.add(name)
            self.lives[name] = int(life) + 1

    def pin(self, addresses: list[str], obsolete: Callable[[], bool]) -> None:
        assert not self.replaying, "tasks are pinned while others replay"
        self._pinned = addresses

    def pinned(self, addresses: list[str]) -> bool:
        return self._pinned == addresses

    def prepared(self, addresses: list[str]) -> bool:
        return self.world.random.random() < 0.5

    def run(self, layout: Layout, job: Job, obsolete: Callable[[], bool]) -> list[TaskReport]:
        """A replay under way goes on meanwhile, by any number of tasks."""
        self.world.jobs += 1
        self.world.beside += self.replaying
        steps = self._stages(layout, job, obsolete)
        while True:
            while self._replay is not None and self.world.random.random() < 0.5:
                self._step()
            try:
                next(steps)
            except StopIteration as ended:
                return list(ended.value)

    def start_replay(
        self, layout: Layout, job: Job, obsolete: Callable[[], bool], *, over: Callable[[], None]
    ) -> None:
        assert not self.replaying, "two replays at once"
        self.replaying, self.told, self._replayed = True, False, None
        self._replay = self._stages(layout, job, lambda: self.told or obsolete())

    def replayed(self) -> list[TaskReport] | None:
        for _ in range(self.world.random.randint(0, 8)):
            self._step()
        if self._replay is not None or not self.replaying:
            return None
        self.replaying = False
        if isinstance(self._replayed, Exception):
            raise self._replayed
        return self._replayed

    @property
    def replay_took(self) -> float:
        return self.world.random.random()

    def cancel_replay(self) -> None:
        self.told = True

    def _step(self) -> None:
        """The replay runs one task more."""
        if self._replay is None:
            return
        try:
            next(self._replay)
        except StopIteration as ended:
            self._replay, self._replayed = None, list(ended.value)
        except (JobCancelledError, RuntimeError) as error:
            self._replay, self._replayed = None, error
            self.world.replays_ended += isinstance(error, JobCancelledError)

    def _stages(
        self, layout: Layout, job: Job, obsolete: Callable[[], bool]
    ) -> Generator[None, None, list[TaskReport]]:
        encoded, footprint = (
            (msgspec.json.encode(layout), msgspec.json.encode(job)),
            footprint_of(layout, job),
        )
        nodes = [layout.nodes[slot] for slot in footprint.slots]
        for node, mine in job.lane.serves.items() if job.lane is not None else ():
            self.world.sent_elsewhere += sum(layout.nodes[layout.slots[p]] != node for p in mine)
        tasks = [LevelTask(level, *encoded, footprint) for level in footprint.levels]
        return self._chain(layout, nodes, tasks, obsolete, counting=job.attempt > 0)

    def hand_over(self, layout: Layout, handover: Handover, obsolete: Callable[[], bool]) -> list[TaskReport]:
        encoded = msgspec.json.encode(layout), msgspec.json.encode(handover)
        stages = [HandoverTask(stage, *encoded) for stage in (SEND, RECEIVE)]
        reports = self._exchange(layout, stages, obsolete)
        received = [one for report in reports for one in report.partitions.values()]
        self.world.handed_over += sum(not one.error for one in received)
        return reports

    def _exchange(self, layout: Layout, stages: list[Any], obsolete: Callable[[], bool]) -> list[TaskReport]:
        chain = self._chain(layout, layout.nodes, stages, obsolete)
        while True:
            try:
                next(chain)
            except StopIteration as ended:
                return list(ended.value)

    def _chain(
        self,
        layout: Layout,
        nodes: list[str],
        stages: list[Any],
        obsolete: Callable[[], bool],
        *,
        counting: bool = False,
    ) -> Generator[None, None, list[TaskReport]]:
        """Stages of tasks on these nodes; it stops after each task. counting: the driver wants to know
        whether tasks ran again."""
        world, slots = self.world, range(len(nodes))
        context: Any = SimpleNamespace(accumulator=PlayedAccumulator)
        runs = TaskRuns(context)
        told = runs.begin(len(stages) * len(nodes))
        repeats = world.repeats
        heard = runs.counting(stages) if counting else stages
        taken: list[Messages] = []
        records: list[Messages] = [[] for _ in slots]
        leftover, self.leftover = self.leftover, []
        disturbed_at = world.random.randrange(len(stages)) if leftover else -1
        for level, task in enumerate(stages):
            for one in leftover if level == disturbed_at else ():
                self._run_unheard(*one)
            out: list[Messages] = [[] for _ in slots]
            for slot, node in enumerate(nodes):
                self._fail(layout)
                stuck = node in world.frozen
                assert obsolete() or not stuck, "a job waits for a node that is gone"
                if stuck or (obsolete() and world.random.random() < 0.5):
                    rest = enumerate(nodes[slot:], start=slot)
                    self.leftover = [(task, other, name, records[other]) for other, name in rest]
                    raise JobCancelledError("executors are gone")
                if level and self._not_fetched():
                    self._repeat(heard[level - 1], nodes, taken, records[slot:], first=slot)
                if world.failing and world.random.random() < 0.05:
                    list(self._task(task, slot, node, records[slot]))
                for target, message in self._task(heard[level], slot, node, records[slot]):
                    out[target].append((slot, message))
                yield
            taken, records = records, [self._arriving(sent_here, nodes) for sent_here in out]
        if self._not_fetched():
            self._repeat(heard[-1], nodes, taken, records, first=0)
        world.repeated += world.repeats < repeats
        reports = [message for messages in records for _, message in messages if message[0] == REPORT]
        return told([msgspec.json.decode(message[-1], type=TaskReport) for message in reports])

    def _not_fetched(self) -> bool:
        """Whether a task cannot fetch what a living node has sent it."""
        return self.world.repeats > 0 and self.world.random.random() < 0.02

    def _repeat(
        self, task: Any, nodes: list[str], taken: list[Messages], waiting: list[Messages], *, first: int
    ) -> None:
        """All tasks that a stage has on one node run again, over what they had taken. Tasks of the next stage
        that have not run, those from slot `first` on, get what is sent now; the others keep what they got."""
        living = sorted(self.world.nodes.keys() & set(nodes))
        name = self.world.random.choice(living) if living else None
        self.world.repeats -= 1
        for slot, node in enumerate(nodes):
            if node != name:
                continue
            sent = list(self._task(task, slot, node, taken[slot]))
            for target, messages in enumerate(waiting, start=first):
                kept = [one for one in messages if one[0] != slot]
                messages[:] = [*kept, *((slot, message) for where, message in sent if where == target)]

    def _arriving(self, sent: Messages, nodes: list[str]) -> Messages:
        """Messages of a node that has died are lost with its shuffle files, unless they were fetched
        before."""
        dead = {nodes[slot] for slot, _ in sent if nodes[slot] not in self.world.nodes}
        lost = {node for node in sorted(dead) if self.world.random.random() < 0.5}
        return [one for one in sent if nodes[one[0]] not in lost]

    def _task(self, task: Any, slot: int, node: str, messages: Messages) -> Iterator[Any]:
        runs_on = node if node in self.world.nodes else "elsewhere"
        os.environ["NODE_ID"] = runs_on
        os.environ["NODE_HOME"] = str(self.world.root / "nodes" / runs_on)
        return task(slot, iter([(slot, None), *((slot, message) for _, message in messages)]))

    def _run_unheard(self, task: Any, slot: int, node: str, messages: Messages) -> None:
        if node not in self.world.nodes:
            return
        with suppress(Exception):
            list(self._task(task, slot, node, messages))
            self.world.unheard += 1

    def _fail(self, layout: Layout) -> None:
        world = self.world
        if not world.failing:
            return
        dice = world.random.random()
        if dice < 0.02 and len(world.nodes) > 1:
            fail = world.freeze if world.freezing and world.random.random() < 0.5 else world.kill
            fail(world.random.choice(sorted(world.nodes)))
        elif dice < 0.03:
            raise DriverKilledError
        elif dice < 0.035:
            raise RuntimeError("Job aborted due to stage failure")
