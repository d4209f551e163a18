"""The history of a fleet over a day, written as rows: samples, checkpoints, problems, incidents, journals."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.models import AvailabilitySample, Problem, Topology
from domain.recovery.facts import Failed, Lost, fact_write

CHECKPOINT_INTERVAL = 10
PROBLEMS, OPERATIONS, AUDIT = 200, 500, 20_000
LOST = 20
BATCH = 5_000


def history_write(*, seconds: int, incidents: int, step: Callable[[], None]) -> None:
    """What happened in the `seconds` until now to every topology that has no history yet, and so many
    incidents of all topologies."""
    now = timezone.now()
    rng = random.Random(5)
    for topology in Topology.objects.filter(problems=None).defer("spec"):
        _write(AvailabilitySample, _samples(topology, now, seconds))
        step()
        _write(Checkpoint, _checkpoints(topology, now, seconds, rng))
        _write(Problem, _problems(topology, now, seconds, rng))
        step()
    first = Incident.objects.count() + 1
    for number in range(first, first + incidents):
        ago = seconds * (1 - (number - first + 1) / (incidents + 1))
        _incident(number, now - timedelta(seconds=ago), rng)
        step()
    _write(Operation, _operations(now, seconds))
    _write(AuditEntry, _audit(rng))
    step()


def samples_renew(*, seconds: int) -> None:
    """Write the samples of the last `seconds` anew, as if the fleet had run until now."""
    now = timezone.now()
    for topology in Topology.objects.defer("spec"):
        since = now - timedelta(seconds=seconds)
        AvailabilitySample.objects.filter(topology=topology, at__gte=since).delete()
        _write(AvailabilitySample, _samples(topology, now, seconds))


def _write(model: Any, rows: Iterable[Any]) -> None:
    model.objects.bulk_create(rows, batch_size=BATCH)


def _samples(topology: Topology, now: datetime, seconds: int) -> Iterable[AvailabilitySample]:
    for i in range(seconds):
        at = now - timedelta(seconds=seconds - i)
        missing = i % 3
        yield AvailabilitySample(
            topology=topology, at=at, available=100 - missing, total=100, weighted=1 - missing / 100
        )


def _checkpoints(topology: Topology, now: datetime, seconds: int, rng: random.Random) -> Iterable[Checkpoint]:
    """Those before the newest one, which the service has written."""
    for i in range(1, seconds // CHECKPOINT_INTERVAL):
        started = now - timedelta(seconds=i * CHECKPOINT_INTERVAL)
        failed = i % 97 == 5
        yield Checkpoint(
            topology=topology,
            epoch=topology.checkpoint_epoch - i * CHECKPOINT_INTERVAL,
            generation=1,
            state="failed" if failed else "completed",
            acknowledged=980 if failed else 1_000,
            total=1_000,
            size_bytes=rng.randrange(3 * 10**8, 5 * 10**8),
            started_at=started,
            ended_at=started + timedelta(seconds=2),
            cause="node-17: no space left on device" if failed else "",
        )


def _problems(topology: Topology, now: datetime, seconds: int, rng: random.Random) -> Iterable[Problem]:
    for i in range(PROBLEMS):
        yield Problem(
            topology=topology,
            at=now - timedelta(seconds=seconds * i / PROBLEMS),
            severity="warning" if i % 3 else "error",
            where=f"node-{rng.randrange(1, 1_000)}: checkpoints/{topology.name}/W{i}-0",
            what="The checkpoint could not be uploaded: no space left on device.",
            hint="Free space on the checkpoint storage; the next checkpoint tries again.",
            count=rng.randrange(1, 20),
        )


def _incident(number: int, at: datetime, rng: random.Random) -> None:
    """A rack was lost and restored in one wave for every topology, with the same placement."""
    topologies = list(Topology.objects.defer("spec"))
    nodes = rng.sample(list(Node.objects.all()), LOST)
    names = {node.name for node in nodes}
    incident = Incident.objects.create(
        number=number,
        state="closed",
        method="incremental",
        reason=f"Lost {', '.join(sorted(names))}",
        detected_at=at,
        opened_at=at + timedelta(seconds=1),
        closed_at=at + timedelta(seconds=200),
        first_query_at=at + timedelta(seconds=20),
        half_queries_at=at + timedelta(seconds=25),
        all_queries_at=at + timedelta(seconds=40),
        availability_area=0.9,
        wanted_nodes=LOST,
        checkpoints={topology.name: topology.checkpoint_epoch for topology in topologies},
    )
    incident.failed_nodes.set(nodes)
    _write(NodeRequest, (_request(incident, node) for node in nodes))
    incident.topologies.set(topologies)
    plans: list[RecoveryPlan] = []
    failed: dict[str, list[str]] = {}
    returned: dict[str, str] = {}
    for topology in topologies:
        newest = RecoveryPlan.objects.filter(topology=topology).order_by("-generation")[0]
        restore = [label for label, node in newest.assignment.items() if node in names]
        queries = [label for label in newest.assignment if label.startswith("O")][:30]
        failed[topology.name] = queries
        returned |= {f"{topology.name}/{query}": incident.all_queries_at.isoformat() for query in queries}
        generation = newest.generation + 1
        plans.append(
            RecoveryPlan(
                topology=topology,
                incident=incident,
                generation=generation,
                wave=1,
                kind="recover",
                method="incremental",
                checkpoint=topology.checkpoint_epoch,
                assignment=newest.assignment,
                restore=restore,
                state="verified",
                reason="what fits on the nodes there are",
                explanation=_explanation(newest.assignment, restore, queries, rng),
                published_at=at + timedelta(seconds=8),
                applied_at=at + timedelta(seconds=12),
                caught_up_at=at + timedelta(seconds=30),
                verified_at=at + timedelta(seconds=200),
            )
        )
        Topology.objects.filter(pk=topology.pk).update(generation=generation, applied_generation=generation)
    RecoveryPlan.objects.bulk_create(plans)
    incident.summary = {"failed_queries": failed, "returned": returned}
    incident.save(update_fields=["summary"])
    _write(IncidentEntry, _entries(incident, sorted(names), plans))


def _request(incident: Incident, node: Node) -> NodeRequest:
    """A replacement under the same name, which joined."""
    asked = incident.opened_at
    return NodeRequest(
        key=f"{incident.number}/{node.name}",
        incident=incident,
        node_name=node.name,
        rack=node.rack,
        requested_at=asked,
        due_at=asked + timedelta(seconds=5),
        started_at=asked + timedelta(seconds=5),
        joined_at=asked + timedelta(seconds=7),
        state="joined",
    )


def _explanation(
    assignment: dict[str, str], restore: list[str], queries: list[str], rng: random.Random
) -> dict[str, Any]:
    """As large as the planner's explanation for this number of queries and nodes."""
    return {
        "planner": "best_density",
        "queries": queries,
        "left": [],
        "value": 160,
        "total": 160,
        "cost_percent": 120.4,
        "capacity_percent": 16_125.1,
        "gap": None,
        "proven": False,
        "candidates": 31,
        "alternatives": [{"queries": queries, "value": 150}],
        "max_utilisation": 0.8,
        "planned_load_percent": {node: round(rng.uniform(60, 78), 1) for node in set(assignment.values())},
        "placed": {label: assignment[label] for label in restore},
        "explanations": [
            {
                "query": query,
                "priority": 1 + i % 10,
                "selected": True,
                "rank": i + 1,
                "cost": 12.2403,
                "marginal_cost": 12.2403,
                "failed_partitions": 2,
                "shared": 2,
                "density": 10.293865346437586,
                "reason": "in: adds 12.2403 % CPU; 16100.5 % stay free",
            }
            for i, query in enumerate(queries)
        ],
    }


def _entries(incident: Incident, names: list[str], plans: list[RecoveryPlan]) -> Iterable[IncidentEntry]:
    def line(second: float, kind: str, text: str, data: dict[str, Any] | None = None) -> IncidentEntry:
        at = incident.detected_at + timedelta(seconds=second)
        return IncidentEntry(incident=incident, at=at, kind=kind, text=text, data=data or {})

    failed = {plan.topology.name: Failed(1, tuple(plan.restore)) for plan in plans}
    lost = Lost(incident.detected_at.timestamp(), tuple(names), failed)
    yield line(1, "stimulus", f"Lost {', '.join(names)}.", fact_write(lost))
    for name in names:
        yield line(1, "evidence", f"{name}: no heartbeat for 4.3 s; its registration is gone.")
    for plan in plans:
        text = f"Plan {plan.generation}, wave 1: queries {', '.join(plan.explanation['queries'])}"
        yield line(8, "decision", text, {"method": "incremental", **plan.explanation})
        yield line(12, "step", f"Plan {plan.generation} of {plan.topology.name} is in force.")
        yield line(30, "step", f"{plan.topology.name} has caught up.")
    yield line(200, "outcome", "Every topology has a global checkpoint after its recovery.")


def _operations(now: datetime, seconds: int) -> Iterable[Operation]:
    for i in range(OPERATIONS):
        yield Operation(
            kind="topology.checkpoint",
            target=f"region-{1 + i % 9}",
            state="succeeded",
            requested_by="kim",
            reason="before the change",
            ended_at=now - timedelta(seconds=seconds * i / OPERATIONS),
        )


def _audit(rng: random.Random) -> Iterable[AuditEntry]:
    for i in range(AUDIT):
        priority = rng.randrange(1, 10)
        yield AuditEntry(
            actor=("kim", "ada", "sam")[i % 3],
            channel="page",
            action="query.priority",
            target=f"region-{1 + i % 9}",
            before={f"O{i % 20}[0]": priority},
            after={f"O{i % 20}[0]": priority + 1},
            reason="Revenue first this week",
        )
