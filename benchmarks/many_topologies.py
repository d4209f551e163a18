"""Hundreds of topologies on SQLite: how long the write lock is held while nodes are lost, plans are stored
and published, and what the other steps of a recovery and the pages take.

CPU seconds of this process, by the services that the workers call. While the lock is held, heartbeats,
reports and operators wait. The baseline is a tenth of the fleet, in the same call: the ratio says how much
more each topology costs in the large one.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least, at_most, run

LOCK_SECONDS = 4.0
"""CPU seconds for which one step may keep other writers waiting."""
STATEMENTS = 150
"""Of one transaction, however many topologies it concerns."""
RATIO = 2.5
EVENT_BYTES = 16_000_000
SHARE_LOST = 0.4


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took: CPU seconds in all, those of its longest transaction, statements, rows written."""

    name: str
    seconds: float
    locked: float
    statements: int
    events: int
    bytes: int


def measure(session: Session) -> Report:
    report = Report()
    large = (30, 120) if session.quick else (300, 1_000)
    small = (large[0] // 10, large[1] // 10)
    found: dict[str, dict[str, Any]] = {}
    for name, (topologies, nodes) in (("small", small), ("large", large)):
        with tempfile.TemporaryDirectory(prefix="resurge-many-") as home:
            found[name] = _apart(Path(home), session, topologies, nodes)
    report.parameters = {name: one["size"] for name, one in found.items()}
    report.results = found
    for name, one in found.items():
        size, counted = one["size"], one["counted"]
        for what, wanted in (
            ("nodes_lost", size["lost"]),
            ("replacements", size["lost"]),
            ("topologies_hit", 1),
            ("plans_stored", counted["topologies_hit"]),
            ("plans_published", counted["plans_stored"]),
            ("queries_down", 1),
        ):
            report.criteria.append(at_least(f"{name}: {what.replace('_', ' ')}", counted[what], wanted))
    _criteria(report, found)
    report.tables.append(_table(found))
    return report


def _criteria(report: Report, found: dict[str, dict[str, Any]]) -> None:
    steps = {name: {one["name"]: one for one in two["steps"]} for name, two in found.items()}
    for name in ("suspect", "lost", "plans", "published", "look"):
        small, large = steps["small"][name], steps["large"][name]
        report.criteria.append(at_most(f"{name}: CPU seconds with the lock", large["locked"], LOCK_SECONDS))
        report.criteria.append(at_most(f"{name}: statements", large["statements"], STATEMENTS))
    report.criteria.append(
        at_most("largest event (bytes)", max(one["bytes"] for one in steps["large"].values()), EVENT_BYTES)
    )
    for name, per in (("lost", "nodes_lost"), ("plans", "plans_stored"), ("published", "plans_stored")):
        small, large = (
            steps[size][name]["locked"] / max(1, found[size]["counted"][per]) for size in ("small", "large")
        )
        title = f"{name}: lock held per one of {per.replace('_', ' ')}, large / small fleet"
        report.criteria.append(at_most(title, large / small, RATIO))


def _table(found: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="Steps of a recovery (large fleet, small fleet)", title_justify="left")
    for column in ("step", "CPU s", "locked", "statements", "CPU s", "locked", "statements"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for large, small in zip(found["large"]["steps"], found["small"]["steps"], strict=True):
        figures = [
            text
            for one in (large, small)
            for text in (f"{one['seconds']:.2f}", f"{one['locked']:.2f}", f"{one['statements']:,}")
        ]
        table.add_row(large["name"], *figures)
    return table


# ---- one fleet -----------------------------------------------------------------------------------------


def _apart(home: Path, session: Session, topologies: int, nodes: int) -> dict[str, Any]:
    """Measure one fleet in a process of its own: a process of Django has one database."""
    import msgspec

    answer = home / "answer.json"
    if (pid := os.fork()) == 0:
        try:
            answer.write_bytes(msgspec.json.encode(_fleet(home, session, topologies, nodes)))
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError(f"the fleet of {topologies} topologies could not be measured")
    found: dict[str, Any] = msgspec.json.decode(answer.read_bytes())
    return found


def _fleet(home: Path, session: Session, topologies: int, nodes: int) -> dict[str, Any]:
    from benchmarks.dashboard.server import installation_compose

    installation_compose(home)
    os.environ["RESURGE_LOG_LEVEL"] = "CRITICAL"
    import django

    django.setup()
    from django.core.management import call_command

    from benchmarks.dashboard.fleet import Fleet, FleetSize
    from benchmarks.dashboard.specs import spec_small
    from controlplane.topologies.models import Partition, Query

    call_command("migrate", verbosity=0)
    fleet = Fleet(spec=spec_small, capacity=3_200, busy=1.2, beats=3)
    with session.progress(f"{topologies} topologies", nodes + topologies + 3) as step, _nothing_sent():
        fleet.grow(FleetSize(nodes=nodes, topologies=topologies), step)
        size = {
            "topologies": topologies,
            "nodes": nodes,
            "lost": int(SHARE_LOST * nodes),
            "partitions": Partition.objects.count(),
            "queries": Query.objects.count(),
        }
        steps, counted = _recovery(fleet, size["lost"])
    return {"size": size, "counted": counted, "steps": [asdict(one) for one in steps]}


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """There is no Redis: neither hints nor tasks are sent, which happens after the lock is given back."""
    from controlplane.events import services, tasks

    hint, task = services.hint_send, tasks.task_send
    services.hint_send = lambda sequence: None
    tasks.task_send = lambda name, *arguments, countdown=None: None
    try:
        yield
    finally:
        services.hint_send, tasks.task_send = hint, task


def _recovery(fleet: Any, lost: int) -> tuple[list[Step], dict[str, int]]:
    from django.utils import timezone

    from controlplane.incidents.loading import machine_load
    from controlplane.incidents.models import Incident, RecoveryPlan
    from controlplane.incidents.services import incident_advance
    from controlplane.lifecycle.nodes import nodes_lost, nodes_suspect
    from controlplane.nodes.models import Node, NodeRequest
    from controlplane.snapshot.document import snapshot_parts
    from controlplane.topologies.models import Query
    from domain.recovery.events import Looked, PlanPublished

    names = [*Node.objects.order_by("pk").values_list("name", flat=True)[:lost]]
    evidence = dict.fromkeys(names, "no heartbeat for 4.3 s; its registration is gone")
    steps = [
        _timed("heartbeats", fleet.heartbeats),
        _timed("suspect", lambda: nodes_suspect(evidence=evidence)),
        _timed("lost", lambda: nodes_lost(evidence=evidence, at=timezone.now())),
    ]
    incident = Incident.objects.get()
    counted = {
        "nodes_lost": Node.objects.filter(name__in=names, state="lost").count(),
        "replacements": NodeRequest.objects.filter(incident=incident).count(),
        "topologies_hit": incident.topologies.count(),
        "queries_down": Query.objects.filter(available=False).count(),
    }
    plans = RecoveryPlan.objects.filter(incident=incident)
    reports, at = fleet.degraded(), timezone.now().timestamp()
    steps.append(_timed("load", lambda: machine_load(incident, may_plan=False)))
    steps.append(
        _timed("plans", lambda: incident_advance(number=incident.number, events=[*reports, Looked(at=at)]))
    )
    counted["plans_stored"] = plans.count()
    published = [
        PlanPublished(at=at, topology=plan.topology.name, generation=plan.generation)
        for plan in plans.select_related("topology")
    ]
    steps.append(_timed("published", lambda: incident_advance(number=incident.number, events=published)))
    counted["plans_published"] = plans.filter(state="published").count()
    steps.append(_timed("look", lambda: incident_advance(number=incident.number, events=[Looked(at=at)])))
    steps.append(_timed("snapshot", lambda: sum(map(len, snapshot_parts()))))
    return steps, counted


def _timed(name: str, action: Callable[[], object]) -> Step:
    """One step. A transaction counts from its first statement to the end of its commit."""
    from django.db import connection, transaction
    from django.db.models import Max, TextField
    from django.db.models.functions import Cast, Length

    from controlplane.events.models import Event

    statements = 0
    longest = 0.0
    begun: float | None = None
    newest = Event.objects.aggregate(last=Max("sequence"))["last"] or 0

    def committed() -> None:
        nonlocal longest, begun
        longest, begun = max(longest, time.process_time() - (begun or time.process_time())), None

    def watch(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        nonlocal statements, begun
        statements += 1
        if begun is None and connection.in_atomic_block:
            begun = time.process_time()
            transaction.on_commit(committed)
        return execute(sql, parameters, many, context)

    started = time.process_time()
    with connection.execute_wrapper(watch):
        action()
    seconds = time.process_time() - started
    told = Event.objects.filter(sequence__gt=newest)
    largest = told.aggregate(most=Max(Length(Cast("changes", TextField()))))["most"] or 0
    return Step(name, round(seconds, 3), round(longest, 3), statements, told.count(), largest)


if __name__ == "__main__":
    sys.exit(run(name="many_topologies", about=__doc__, measure=measure))
