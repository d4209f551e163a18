"""Random courses of an installation: what drivers, nodes, plans and operators do, in any order.

`course_run(seed)` gives the contradictions between places that show health, at any sequence number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from controlplane.errors import ServiceError
from controlplane.events.choices import OperationKind
from controlplane.incidents.actions import incident_order
from controlplane.incidents.models import Incident
from controlplane.incidents.parking import queries_park, queries_unpark
from controlplane.incidents.plans import plan_mark_applied
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import incident_advance, incident_queries_note, recover_now
from controlplane.lifecycle.forgetting import node_forget
from controlplane.lifecycle.nodes import node_drain, node_register, nodes_lost
from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import driver_status_apply, topology_metrics_apply, topology_stopped
from domain.availability import QueryHealth
from domain.messages import DriverState, NodeRegistration, TentativeStatus
from domain.recovery.events import (
    CheckpointCompleted,
    DriverReported,
    Event,
    PlanPublished,
    TopologyWithdrawn,
)
from tests.unit.controlplane.health.places import Places
from tests.unit.controlplane.specs import BY, driver_status, epoch_report, spec_of

STEPS = 12
STATES: tuple[DriverState, ...] = (
    "running",
    "running",
    "running",
    "degraded",
    "replaying",
    "restoring",
    "starting",
    "paused",
    "failed",
)
LATENCIES = (0.9, 1.0, 1.19, 1.2, 1.4, 1.6, 2.67)


def setting_make() -> None:
    """Two topologies on four nodes, one of which has no incident of its own."""
    for number in range(1, 5):
        _register(f"node-{number}")
    for name in ("counts", "words"):
        topology_create(spec=spec_of(name), **BY)
        topology_deploy(name=name, **BY)


def course_run(seed: int, steps: int = STEPS) -> Iterator[str]:
    """To be called with what `setting_make` made; leaves it as it was."""
    try:
        with transaction.atomic():
            course = Course(random.Random(seed), random.Random(f"tentative-{seed}"))
            yield from course.run(steps)
            raise _UndoneError
    except _UndoneError:
        pass


class _UndoneError(Exception):
    """Rolls a course back."""


class Course:
    def __init__(self, chance: random.Random, tentative: random.Random) -> None:
        self._chance, self._tentative = chance, tentative
        self._epoch = 10
        self._done: list[str] = []

    def run(self, steps: int) -> Iterator[str]:
        places = Places()
        for name in ("counts", "words"):
            if self._chance.random() < 0.5:
                Topology.objects.filter(name=name).update(
                    approval=self._chance.choice(("automatic", "approve")),
                    method=self._chance.choice(("auto", "blocking", "incremental")),
                )
        for _ in range(steps):
            weights = [weight for _, weight in ACTIONS]
            self.step(self._chance.choices([one for one, _ in ACTIONS], weights)[0])
            for found in places.contradictions():
                yield f"{found}\n    after {', '.join(self._done)}"

    def step(self, action: Callable[[Course], None]) -> str:
        """Returns what was done."""
        self._done.append(action.__name__.strip("_"))
        try:
            with transaction.atomic():
                action(self)
        except ServiceError as error:
            self._done[-1] += f" (refused: {error})"
        return self._done[-1]

    # ---- what happens --------------------------------------------------------------------------------

    def _topology(self) -> Topology:
        return Topology.objects.get(name=self._chance.choice(("counts", "counts", "words")))

    def _driver(self) -> None:
        topology = self._topology()
        status = driver_status(topology, self._chance.choice(STATES), committed=self._epoch)
        labels = [row.label for row in topology.partitions.all()]
        behind = self._chance.sample(labels, self._chance.randint(0, 3))
        status = msgspec.structs.replace(
            status,
            generation=self._chance.choice((topology.generation, topology.applied_generation)),
            absent=self._chance.sample(labels, self._chance.choice((0, 0, 1, 2))),
            behind=behind,
            catch_up=self._chance.choice((None, 3.2, 41.0, 86_400.0)),
            tentative={
                label: TentativeStatus(since=self._epoch, epoch=self._epoch + 2, fidelity=0.75)
                for label in labels
                if self._tentative.random() < 0.2
            },
        )
        driver_status_apply(status=status)

    def _report(self) -> None:
        topology = self._topology()
        self._epoch += 1
        state: DriverState = self._chance.choice(("running", "running", "degraded", "replaying"))
        report = epoch_report(
            topology, epoch=self._epoch, generation=topology.applied_generation, state=state
        )
        well = self._chance.random() < 0.5
        health = {label: self._verdict(well) for label in report.queries}
        Topology.objects.filter(pk=topology.pk).update(metrics_at=timezone.now() - timedelta(seconds=2))
        topology_metrics_apply(report=report, health=health)

    def _verdict(self, well: bool) -> QueryHealth:
        available = well or self._chance.random() < 0.5
        relative = self._chance.choice(LATENCIES)
        if available:
            relative = min(relative, 1.5)
        elif self._chance.random() < 0.2:
            return QueryHealth(latency=None, baseline=None, relative=None, available=False)
        return QueryHealth(latency=relative, baseline=1.0, relative=relative, available=available)

    def _lose(self) -> None:
        alive = [*Node.objects.filter(state__in=("alive", "draining")).values_list("name", flat=True)]
        if len(alive) > 1:
            lost = self._chance.sample(alive, self._chance.randint(1, min(2, len(alive) - 1)))
            nodes_lost(evidence=dict.fromkeys(lost, "its process has ended"), at=timezone.now())

    def _join(self) -> None:
        wanted = [
            *Node.objects.filter(state__in=("requested", "joining", "lost")).values_list("name", flat=True)
        ]
        _register(self._chance.choice([*wanted, "node-9"]))

    def _advance(self) -> None:
        """The coordinator looks: what it was to publish is published, and the driver has come some way."""
        for incident in [*incidents_open()]:
            at, events = timezone.now().timestamp(), list[Event]()
            state = self._chance.choice(("replaying", "running", "running", "degraded", "starting"))
            for topology in incident.topologies.all():
                generation = topology.generation - self._chance.choice((0, 0, 0, 1))
                events.append(PlanPublished(at=at, topology=topology.name, generation=topology.generation))
                if topology.status in ("draft", "stopped", "stopping", "completed"):
                    events.append(
                        TopologyWithdrawn(at=at, topology=topology.name, reason="it was undeployed")
                    )
                    continue
                self._epoch += self._chance.choice((0, 10))
                events.append(
                    DriverReported(
                        at=at,
                        topology=topology.name,
                        generation=generation,
                        state=state,
                        head=self._epoch,
                        committed=self._epoch,
                        checkpoint=0,
                    )
                )
                events.append(
                    CheckpointCompleted(
                        at=at, topology=topology.name, checkpoint=self._epoch, generation=generation
                    )
                )
                if generation == topology.generation and self._chance.random() < 0.5:
                    plan_mark_applied(topology=topology.name, generation=generation)
            incident_advance(number=incident.number, events=events)

    def _order(self) -> None:
        incident = incidents_open().first()
        if incident is not None:
            kind = self._chance.choice(ORDERS)
            proposals = [one["proposal"] for one in incident.proposals.values()]
            incident_order(kind=kind, number=incident.number, actor="ada", reason="test", proposals=proposals)

    def _note(self) -> None:
        for number in Incident.objects.values_list("number", flat=True):
            incident_queries_note(number=number)

    def _drain(self) -> None:
        node_drain(name=self._chance.choice(("node-1", "node-2", "node-3")), actor="ada", reason="test")

    def _forget(self) -> None:
        node = Node.objects.filter(state__in=("lost", "left"), forgotten_at=None).first()
        if node is not None:
            node_forget(name=node.name, **BY)

    def _recover(self) -> None:
        recover_now(topology=self._topology().name, actor="ada", reason="test")

    def _park(self) -> None:
        topology = self._topology()
        row = self._chance.choice([*Query.objects.filter(topology=topology).select_related("partition")])
        act: Callable[..., Any] = queries_unpark if row.parked else queries_park
        act(topology=topology.name, queries=[row.partition.label], actor="ada", reason="test")

    def _stop(self) -> None:
        topology = self._topology()
        if topology.status == "stopping":
            topology_stopped(name=topology.name)
        elif topology.desired == "running":
            topology_undeploy(name=topology.name, **BY)
        else:
            topology_deploy(name=topology.name, **BY)

    def _complete(self) -> None:
        topology = self._topology()
        driver_status_apply(status=driver_status(topology, "completed", committed=self._epoch))


ORDERS = (
    OperationKind.INCIDENT_APPROVE,
    OperationKind.INCIDENT_APPROVE,
    OperationKind.INCIDENT_PAUSE,
    OperationKind.INCIDENT_RESUME,
    OperationKind.INCIDENT_REPLAN,
    OperationKind.INCIDENT_ABORT,
    OperationKind.INCIDENT_ACCEPT,
    OperationKind.INCIDENT_ACCEPT,
)

ACTIONS: tuple[tuple[Callable[[Course], None], float], ...] = (
    (Course._driver, 4),
    (Course._report, 8),
    (Course._lose, 3),
    (Course._join, 4),
    (Course._advance, 8),
    (Course._order, 2),
    (Course._note, 1),
    (Course._drain, 0.5),
    (Course._forget, 1),
    (Course._recover, 0.5),
    (Course._park, 0.5),
    (Course._stop, 0.7),
    (Course._complete, 0.2),
)


def _register(name: str) -> None:
    node_register(
        registration=NodeRegistration(
            id=name, address="127.0.1.1", rack="rack-a", slots=2, capacity=100, pid=1, session="a1",
            registered_at=timezone.now().timestamp(),
        ),
        at=timezone.now(),
    )  # fmt: skip
