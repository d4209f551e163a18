"""Applying what drivers report: epochs, their own state, problems.

The ingestion thread calls these with messages that may come late, twice or never,
so each one sets absolute values, ignores older generations and can be repeated.
A call makes a constant number of database queries and publishes at most one event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec
import structlog
from django.conf import settings
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.pace import round_begins
from controlplane.events.representation import Change
from controlplane.events.services import event_publish, writing
from controlplane.events.tasks import TOPOLOGY_STEP, task_send_on_commit
from controlplane.topologies.capacity import cpu_model_read
from controlplane.topologies.choices import (
    Desired,
    PartitionState,
    Severity,
    TopologyStatus,
)
from controlplane.topologies.figures import SETTLED, figures_settle, load_usual, rate_smoothed
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import AvailabilitySample, FlowRates, Problem, Topology
from controlplane.topologies.outcomes import operations_end
from controlplane.topologies.problem_rows import row_read
from controlplane.topologies.representation import (
    TOPOLOGY_METRICS,
    problem_change,
    sample_change,
    topology_change,
)
from controlplane.topologies.rows import Rows
from controlplane.topologies.states import partition_states, query_health, topology_status
from controlplane.topologies.tentative import tentative_apply
from domain.capacity import PACE_UNKNOWN, Pace
from domain.capacity.saturation import FULL
from domain.messages import DriverState, DriverStatus, EpochReport, ProblemReport
from domain.values import LARGEST_COUNT

log = structlog.get_logger(__name__)

CAUGHT_UP, FALLEN_BEHIND = 3, 20
"""Epochs that a replica may lack to count as caught up, and to go on counting."""

LONGEST_TEXT = 10_000
METRICS_EVERY = timedelta(seconds=1)
# Messages are a little irregular: without slack every second one of a 1 s rhythm would be dropped.
# What one event comes early, the next one waits longer, so there is still no more than one a second.
METRICS_SLACK = timedelta(milliseconds=250)


class UnknownPlanError(ValueError):
    """A report of a plan that was never made. Believed, it would make all later reports look old."""


class QueryHealth(Protocol):
    """The availability tracker's verdict on one query; latencies in seconds."""

    @property
    def latency(self) -> float | None: ...
    @property
    def baseline(self) -> float | None: ...
    @property
    def relative(self) -> float | None: ...
    @property
    def available(self) -> bool: ...


@writing
def topology_metrics_apply(
    *, report: EpochReport, health: Mapping[str, QueryHealth], pace: Pace = PACE_UNKNOWN
) -> None:
    """Store an epoch report; publish it unless the topology had a metrics event within the last second."""
    topology = _topology(report.topology, report.generation)
    if topology is None:
        return
    rows = Rows.load(topology)
    before = topology.status, rows.standing()
    interval = graph_of(topology.spec).spec.epoch_interval
    seconds = _span(report, interval)
    shares = cpu_model_read(topology.name, topology.cpu_model).shares
    for label, metrics in report.partitions.items():
        partition = rows.partitions.get(label)
        if partition is None:
            continue
        partition.node_id = rows.nodes.ids.get(metrics.node, partition.node_id)
        partition.epoch = metrics.epoch
        if metrics.cost is not None:
            cores = shares.partitions(operators=metrics.cost, tuples=metrics.tuple_rate or 0.0)
            partition.cpu = round(cores, 6)
        partition.rows_in_rate = round(
            rate_smoothed(partition.rows_in_rate, metrics.rows_in / seconds, seconds), 1
        )
        partition.rows_out_rate = round(
            rate_smoothed(partition.rows_out_rate, metrics.rows_out / seconds, seconds), 1
        )
        partition.state_bytes = metrics.state_bytes
    for label, measured in report.queries.items():
        query = rows.queries.get(label)
        if query is not None:
            query.epoch = measured.epoch
            query.latency = measured.latency
    topology.head_epoch = report.head
    topology.committed_epoch = report.committed
    if report.last >= report.first:  # a replay reads no new input
        span = interval * (report.last - report.first + 1)
        topology.input_rate = rate_smoothed(topology.input_rate, report.input_rate, span)
    topology.load, topology.lag, topology.load_falls = pace.load, pace.lag, pace.falls
    since = pace.overloaded_since
    topology.overloaded_since = None if since is None else datetime.fromtimestamp(since, tz=UTC)
    _states_apply(topology, rows, report.state, report.absent, health)
    in_peace = topology.status == TopologyStatus.RUNNING and since is None
    if in_peace and pace.load is not None and pace.load < FULL:
        topology.usual_load = load_usual(topology.usual_load, pace.load, seconds)
    rows.save()
    now, last = timezone.now(), topology.metrics_at
    if last is not None and last > now + METRICS_EVERY:
        last = None  # the clock was put back
    if report.rates or report.flows:
        averages = {"at": now, "given": report.rates, "pairs": report.flows}
        FlowRates.objects.update_or_create(topology=topology, defaults=averages)
    next_at = now if last is None else last + METRICS_EVERY
    due = now >= next_at - METRICS_SLACK
    if due:
        topology.metrics_at = max(now, next_at)
    topology.save(
        update_fields=[
            "status", "applied_generation", "head_epoch", "committed_epoch", "acting", "metrics_at",
            "updated_at", *SETTLED,
        ]
    )  # fmt: skip
    if not due and before == (topology.status, rows.standing()):
        return
    at = topology.metrics_at or now
    whole = round_begins(rows=len(rows.partitions), last=last, now=at, offset=topology.pk)
    moved = rows.metrics_changes(before[1], all_partitions=whole)
    told = TOPOLOGY_METRICS if topology.status == before[0] else None
    changes: list[Change] = [topology_change(topology, only=told), *moved]
    if rows.queries:
        sample = sample_create(topology, rows, at=now)
        changes.append(sample_change(sample, topology=topology.name))
    event_publish(
        kind=EventKind.TOPOLOGY_METRICS if due else EventKind.TOPOLOGY_UPDATED,
        topology=topology.name,
        changes=changes,
    )


@writing
def driver_status_apply(*, status: DriverStatus) -> None:
    """Store what a driver says of itself; one event when something changed."""
    topology = _topology(status.topology, status.generation)
    if topology is None or _overtaken(topology, status):
        return
    rows = Rows.load(topology)
    before = topology_change(topology)
    rows_before = rows.changes()
    available_before = rows.available(), rows.tentative()
    if status.state != "failed":  # a driver that cannot run may not have read how far its topology is
        # Numbers of one driver never fall: a lower one was read by the sweep before the newest report came.
        # Those of the next driver may: its host may have lost what was not forced to disk.
        follows = status.life > topology.told_life
        topology.head_epoch = max(0 if follows else topology.head_epoch, status.head)
        topology.committed_epoch = max(0 if follows else topology.committed_epoch, status.committed)
        topology.checkpoint_epoch = status.checkpoint
    topology.told_life, topology.told_at = status.life or topology.told_life, status.at
    topology.error = status.error
    # Whole seconds: an estimate is no better, and each new value is an event.
    behind = status.behind and status.catch_up is not None
    topology.catch_up = float(round(status.catch_up or 0.0)) if behind else None
    now = timezone.now().isoformat()
    topology.slow_since = {node: topology.slow_since.get(node, now) for node in status.slow}
    topology.keys = msgspec.to_builtins(status.keys)
    taken = _replicas_apply(topology, rows, status)
    begun = tentative_apply(topology, rows, status.tentative, generation=status.generation, at=timezone.now())
    _states_apply(topology, rows, status.state, status.absent, {}, behind=status.behind)
    after = topology_change(topology)
    rows_after = [row for row, old in zip(rows.changes(), rows_before, strict=True) if row != old]
    if rows_after:
        rows.save()
    if after != before:
        topology.save(
            update_fields=[
                "status", "applied_generation", "head_epoch", "committed_epoch", "checkpoint_epoch",
                "acting", "shadows", "updated_at", "told_life", "told_at", *SETTLED,
            ]
        )  # fmt: skip
    else:
        topology.save(update_fields=["told_life", "told_at"])
    if rows_after or after != before:
        changes = [after, *rows_after]
        if (rows.available(), rows.tentative()) != available_before:
            sample = sample_create(topology, rows, at=timezone.now())
            changes.append(sample_change(sample, topology=topology.name))
        event_publish(
            kind=_driver_event(before, topology, taken=bool(taken), begun=bool(begun)),
            topology=topology.name,
            changes=changes,
            reason=". ".join(filter(None, (_taken_over(taken), _begun(begun)))) or status.error,
        )
    if taken:
        task_send_on_commit(TOPOLOGY_STEP, topology.name)
    operations_end(topology, status.state, status.error)


def _overtaken(topology: Topology, status: DriverStatus) -> bool:
    """Whether something later is known of the same driver, or of one after it. The sweep and the telemetry
    stream overtake each other. Another driver with a lower number has an epoch log from a backup."""
    return status.at < topology.told_at and status.life <= topology.told_life


def _replicas_apply(topology: Topology, rows: Rows, status: DriverStatus) -> dict[str, str]:
    """What the driver says of replicas; returns takeovers that are news: partition -> node."""
    before = topology.shadows
    taken = {p: node for p, node in sorted(status.acting.items()) if topology.acting.get(p) != node}
    topology.acting = dict(sorted(status.acting.items()))
    topology.shadows = {
        partition: {
            "node": one.node,
            "caught_up": one.ready
            and one.lacks <= (FALLEN_BEHIND if before.get(partition, {}).get("caught_up") else CAUGHT_UP),
        }
        for partition, one in sorted(status.shadows.items())
    }
    for partition, node in status.acting.items():
        if partition in rows.partitions and node in rows.nodes.ids:
            rows.partitions[partition].node_id = rows.nodes.ids[node]
    return taken


def _taken_over(taken: Mapping[str, str]) -> str:
    if not taken:
        return ""
    names = ", ".join(list(taken)[:5]) + (f" and {len(taken) - 5} more" if len(taken) > 5 else "")
    return f"the replicas of {names} have taken over"


def _begun(begun: Mapping[str, float]) -> str:
    if not begun:
        return ""
    names = ", ".join(list(begun)[:5]) + (f" and {len(begun) - 5} more" if len(begun) > 5 else "")
    least, most = round(100 * min(begun.values())), round(100 * max(begun.values()))
    share = f"{least} %" if least == most else f"{least} to {most} %"
    return f"{names} go on with about {share} of their input"


@writing
def driver_gone(*, name: str) -> None:
    """No driver measures nodes now: none counts as slow until the next one has found it to be."""
    topology = Topology.objects.select_for_update().exclude(slow_since={}).filter(name=name).first()
    if topology is not None:
        topology.slow_since = {}
        topology.save(update_fields=["slow_since", "updated_at"])
        event_publish(kind=EventKind.TOPOLOGY_UPDATED, topology=name, changes=[topology_change(topology)])


@writing
def topology_stopped(*, name: str) -> None:
    """No driver is left of a topology that is to be stopped: it has stopped."""
    topology = Topology.objects.select_for_update().filter(name=name, desired=Desired.STOPPED).first()
    if topology is None:
        return
    if topology.status == TopologyStatus.STOPPING:
        rows = Rows.load(topology)
        _states_apply(topology, rows, "stopped", [], {})
        rows.save()
        topology.acting, topology.shadows = {}, {}
        topology.save(update_fields=["status", "acting", "shadows", "updated_at", *SETTLED])
        event_publish(
            kind=EventKind.TOPOLOGY_UPDATED,
            topology=name,
            changes=[topology_change(topology), *rows.changes()],
        )
    operations_end(topology, "stopped", "")


@writing
def problem_record(*, report: ProblemReport) -> None:
    """Show a problem; one that is already there is counted and moves up."""
    topology = Topology.objects.filter(name=report.topology).first()
    if topology is None and report.topology:
        log.warning("problem of an unknown topology", topology=report.topology, what=report.what)
        return
    now = timezone.now()
    where, what = report.where[:255], report.what[:LONGEST_TEXT]
    row = row_read(report.row, settings.RESURGE.mask_columns)
    problem = (
        Problem.objects.select_for_update()
        .filter(topology=topology, where=where, what=what, severity=report.severity)
        .first()
    )
    if problem is None:
        problem = Problem.objects.create(
            topology=topology,
            at=now,
            severity=Severity(report.severity),
            where=where,
            what=what,
            hint=report.hint[:LONGEST_TEXT],
            count=report.count,
            row=row,
        )
    else:
        problem.at = now
        problem.row = row or problem.row
        problem.hint = report.hint[:LONGEST_TEXT]
        problem.count = min(problem.count + report.count, LARGEST_COUNT)
        problem.save(update_fields=["at", "hint", "count", "row"])
    event_publish(
        kind=EventKind.PROBLEM_RAISED,
        topology=report.topology or None,
        changes=[problem_change(problem, topology=topology.name if topology else None)],
        reason=report.what[:200],
    )


def sample_create(topology: Topology, rows: Rows, *, at: datetime) -> AvailabilitySample:
    queries = rows.queries.values()
    total = sum(query.priority for query in queries)
    return AvailabilitySample.objects.create(
        topology=topology,
        # Milliseconds, as on the wire: the sample's key is its time.
        at=at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000),
        available=rows.available(),
        total=len(rows.queries),
        weighted=sum(query.priority for query in queries if query.available) / total if total else 0.0,
        tentative=rows.tentative(),
    )


def _span(report: EpochReport, epoch_interval: float) -> float:
    """Seconds of real time that a report stands for: while keeping pace, the intervals of its epochs;
    while catching up, the time the job took."""
    took = max(report.ended_at - report.started_at, 1e-3)
    if report.state != "running":
        return took
    return max(took, epoch_interval * (report.last - report.first + 1))


def plan_known(topology: Topology, generation: int) -> None:
    """Raises `UnknownPlanError`."""
    if generation > topology.generation:
        raise UnknownPlanError(
            f"it is of plan {generation}, and {topology.generation} is the newest of {topology.name}"
        )


def _topology(name: str, generation: int) -> Topology | None:
    """The locked row, or None where the message is about nothing we know or about an earlier plan."""
    topology = Topology.objects.select_for_update().filter(name=name).first()
    if topology is None:
        log.warning("telemetry of an unknown topology", topology=name)
        return None
    if generation < topology.applied_generation:
        log.debug("telemetry of an earlier generation", topology=name, generation=generation)
        return None
    plan_known(topology, generation)
    if generation > topology.applied_generation:
        topology.acting = _still_acting(topology, generation)
    topology.applied_generation = generation
    return topology


def _still_acting(topology: Topology, generation: int) -> dict[str, str]:
    """What goes on to act when the driver goes over to this plan: the takeovers that it does not know of. The
    driver says so itself, but perhaps later than it reports its first epoch under the plan."""
    plan = topology.plans.filter(generation=generation).only("acting").first() if topology.acting else None
    known: dict[str, str] = plan.acting if plan is not None else {}
    return {p: node for p, node in topology.acting.items() if known.get(p) != node}


def _states_apply(
    topology: Topology,
    rows: Rows,
    state: DriverState,
    absent: list[str],
    health: Mapping[str, QueryHealth],
    behind: Collection[str] | None = None,
) -> None:
    """Derive all states."""
    graph = graph_of(topology.spec)
    topology.status = topology_status(
        state,
        committed=topology.committed_epoch,
        wanted=topology.desired == Desired.RUNNING,
        current=topology.status,
    )
    # The driver may not have noticed yet what the heartbeats have shown.
    failed = {label for label, row in rows.partitions.items() if row.node_id in rows.nodes.gone}
    awaited = {label for label in absent if label in rows.partitions} - failed
    failed |= awaited
    # Nor has it applied the plan that leaves these out.
    failed.update(
        label
        for label, row in rows.partitions.items()
        if row.node_id is None and row.state == PartitionState.FAILED
    )
    states = partition_states(
        graph,
        state=state,
        failed=failed,
        previous={label: row.state for label, row in rows.partitions.items()},
        behind=behind,
        awaited=awaited,
    )
    for label, partition in rows.partitions.items():
        partition.state = states.get(label, partition.state)
    catching_up = (PartitionState.RESTORING, PartitionState.REPLAYING)
    restored = {label for label, row in rows.partitions.items() if row.state in catching_up}
    for label, query in rows.queries.items():
        needed = graph.query_partitions.get(label, frozenset())
        verdict = health.get(label)
        if verdict is not None:
            query.latency = verdict.latency
            query.baseline_latency = verdict.baseline
            query.relative_latency = verdict.relative
        query.status, query.available = query_health(
            failed=not needed.isdisjoint(failed),
            restored=not needed.isdisjoint(restored),
            healthy=verdict.available if verdict is not None else query.available,
            state=state,
            previous=query.status,
            was_available=query.available,
            parked=query.parked,
        )
    figures_settle(topology, rows)


def _driver_event(before: Change, topology: Topology, *, taken: bool, begun: bool) -> EventKind:
    if taken:
        return EventKind.TOPOLOGY_TAKEN_OVER
    if begun:
        return EventKind.QUERY_TENTATIVE
    was = (before["fields"] or {}).get("status")
    if topology.status != was and topology.status == TopologyStatus.COMPLETED:
        return EventKind.TOPOLOGY_COMPLETED
    if topology.status != was and topology.status == TopologyStatus.FAILED:
        return EventKind.TOPOLOGY_FAILED
    return EventKind.TOPOLOGY_UPDATED
