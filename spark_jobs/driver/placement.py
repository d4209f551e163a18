"""From a plan to a layout: which of its nodes can work, and tasks pinned to those."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from domain.execution.instructions import HandOver
from domain.execution.job import Division, Handover, Layout, placed_levels
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.copies import is_branch, is_shadow, operator_of
from host.environment import Environment
from spark_jobs.driver.cluster import Cluster, Executor
from spark_jobs.driver.topology_channel import TopologyChannel

log = structlog.get_logger()
SMOOTHING = 0.3


class TaskPlacement:
    """`layout` is where the partitions are now, None while no node of the plan can be reached.
    `pin_seconds` is about how long it takes to pin tasks to other nodes."""

    def __init__(
        self,
        topology: Topology,
        *,
        cluster: Cluster,
        coordination: TopologyChannel,
        clock: Callable[[], float],
        settings: Environment,
        division: Division | None = None,
        life: int = 0,
    ) -> None:
        self.topology = topology
        self.layout: Layout | None = None
        self.pin_seconds = 0.3
        self._cluster = cluster
        self._coordination = coordination
        self._clock = clock
        self._settings = settings
        self._division = division
        self._life = life
        self._executors: frozenset[Executor] | None = None
        self._pinned: frozenset[Executor] = frozenset()
        self._ready: frozenset[Executor] = frozenset()
        self._warming: frozenset[Executor] = frozenset()
        self._deployed: int | None = None
        # Whether what tasks were pinned to is there as far as is known.
        self._trusted = False

    @property
    def deployed(self) -> int:
        """Generation of the plan that deployed the topology. The newest plan says so even where it cannot be
        applied; one of a later deployment is for another driver, so it stays as it was first found."""
        newest = self._coordination.plan
        if self._deployed is None and newest is not None:
            self._deployed = newest.deployment
        return self._deployed or 0

    def prepare(self) -> None:
        """See to it that executors which have come get ready, and that Spark gives no work to those whose
        node is gone."""
        executors = self._cluster.executors()
        present = self._present(executors)
        if present < executors:
            self._cluster.give_up(executors - present)
        self._ready = self._cluster.ready(present)
        self._warming = present - self._ready

    def ready(self, plan: Plan) -> set[str]:
        """Those of the plan's nodes that could work without delay when last prepared."""
        return self._among(plan, self._ready)

    def warming(self, plan: Plan) -> set[str]:
        """Those of the plan's nodes whose executor was there when last prepared, and not ready."""
        return self._among(plan, self._warming) - self.ready(plan)

    def _among(self, plan: Plan, executors: frozenset[Executor]) -> set[str]:
        hosts = {executor.host for executor in executors}
        nodes = set(plan.assignment.values())
        return {node for node in nodes if self._coordination.addresses.get(node) in hosts}

    def look_again(self, *, trusted: bool = False) -> None:
        """The plan is another one. Unless `trusted`, what is known of the executors may be wrong."""
        self._executors = None
        self._trusted = self._trusted and trusted

    def disturbed(self) -> bool:
        """Whether an executor that tasks were pinned to is gone, so that Spark may have run some again."""
        return not self._pinned <= self._cluster.executors()

    def forsaken(self) -> bool:
        """Whether tasks were pinned to a node that is gone although Spark still waits for its executor."""
        return len(self._present(self._pinned)) < len(self._pinned)

    def _present(self, executors: frozenset[Executor]) -> frozenset[Executor]:
        gone = self._coordination.gone_addresses()
        return frozenset(one for one in executors if one.host not in gone) if gone else executors

    def hand_over(self, told: HandOver, readers: Mapping[str, dict[str, Any]]) -> set[str]:
        """Bring the state of partitions to the nodes that a plan gives them; returns those for which that
        was done. Tasks are pinned to their old and new nodes, until `follow` pins them again."""
        layout, slot = self._pin(told.plan, readers, also=told.sources.values())
        self._executors = None
        if layout is None:
            return set()
        here = {p for p, node in told.sources.items() if node in slot and p in layout.slots}
        if not here:
            return set()
        handover = Handover(
            sources={partition: slot[told.sources[partition]] for partition in sorted(here)},
            epochs={partition: told.epochs[partition] for partition in here},
            since=told.since,
            attempt=told.attempt,
        )
        reports = self._cluster.hand_over(layout, handover, lambda: self.disturbed() or self.forsaken())
        received = {p: one.error for report in reports for p, one in report.partitions.items()}
        for partition, error in sorted(received.items()):
            if error:
                log.warning("state not handed over", partition=partition, error=error)
        return {partition for partition, error in received.items() if not error}

    def outdated(self, plan: Plan) -> bool:
        """Whether `follow` is going to pin tasks to other executors."""
        return self._wanted(plan) != self._executors

    def _wanted(self, plan: Plan) -> frozenset[Executor]:
        """The executors to pin tasks to: those of the plan's nodes that are there. Where some more got ready,
        once that takes no time: until then the others go on without them."""
        executors = self._present_of(plan.assignment.values())
        known = self._executors
        same_plan = self.layout is not None and self.layout.generation == plan.generation
        if known and known < executors and same_plan:
            addresses = self._addresses(self._homes(executors, plan.assignment.values()))
            if not self._cluster.prepared(addresses):
                return known
        return executors

    def _homes(self, executors: Iterable[Executor], names: Iterable[str]) -> list[str]:
        """The nodes of these executors, in the order of their slots."""
        homes = {self._coordination.addresses.get(name): name for name in names}
        return sorted({homes[executor.host] for executor in executors})

    def _addresses(self, nodes: Iterable[str]) -> list[str]:
        return [self._coordination.addresses[name] for name in nodes]

    def follow(self, plan: Plan, readers: Mapping[str, dict[str, Any]], graph: Topology) -> set[str] | None:
        """Pin again if executors of the plan's nodes got ready or went; returns the partitions and copies
        that are absent then, or None if nothing has changed. `readers`: options of the source operators;
        graph: the topology with the copies that the plan names."""
        executors = self._wanted(plan)
        if executors == self._executors:
            return None
        self._executors = executors
        self.layout, _ = self._pin(plan, readers, graph=graph)
        placed = self.layout.slots if self.layout is not None else {}
        named = {*self.topology.partitions, *plan.assignment}
        return {partition for partition in named if partition not in placed}

    def _present_of(self, names: Iterable[str]) -> frozenset[Executor]:
        """Executors of these nodes that are ready and not gone since: every query waits for the others."""
        hosts = {self._coordination.addresses.get(name) for name in names}
        ready = self._ready & self._cluster.executors()
        return frozenset(one for one in self._present(ready) if one.host in hosts)

    def _pin(
        self,
        plan: Plan,
        readers: Mapping[str, dict[str, Any]],
        *,
        also: Iterable[str] = (),
        graph: Topology | None = None,
    ) -> tuple[Layout | None, dict[str, int]]:
        """Pin tasks to those nodes of a plan, and to those of `also`, that are ready. Returns where
        partitions are then, None if no node can be reached, and the slot of each node."""
        names = sorted({*plan.assignment.values(), *also})
        before, self._pinned = self._pinned, self._present_of(names)
        nodes = self._homes(self._pinned, names)
        slot = {name: index for index, name in enumerate(nodes)}
        if not nodes:
            return None, slot
        addresses = self._addresses(nodes)
        if not (self._trusted and before == self._pinned and self._cluster.pinned(addresses)):
            self._trusted = False
            started = self._clock()
            self._cluster.pin(addresses, lambda: self.disturbed() or self.forsaken())
            self.pin_seconds += SMOOTHING * (self._clock() - started - self.pin_seconds)
            self._trusted = True
        layout = Layout(
            spec=self.topology.spec,
            generation=plan.generation,
            deployed=self.deployed,
            life=self._life,
            force=self._settings.force,
            nodes=nodes,
            slots={p: slot[node] for p, node in plan.assignment.items() if node in slot},
            levels=placed_levels(graph or self.topology, plan.assignment),
            outputs=self._settings.outputs,
            checkpoints=self._settings.checkpoints,
            readers=dict(readers),
            operator_modules=list(self._settings.operator_modules),
            masked=list(self._settings.mask_columns),
            division=self._division,
            shadowed=sorted(set(map(operator_of, filter(is_shadow, plan.assignment)))),
            branched=sorted(set(map(operator_of, filter(is_branch, plan.assignment)))),
        )
        return layout, slot
