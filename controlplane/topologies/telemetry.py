"""Applying what drivers report: epochs, and their own state (write side).

The ingestion thread calls these with messages that may come late, twice or never,
so each one sets absolute values, ignores older generations and can be repeated.
A call makes a constant number of database queries and publishes at most one event.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.pace import round_begins
from controlplane.events.services import event_publish, writing
from controlplane.events.tasks import TOPOLOGY_STEP, task_send_on_commit
from controlplane.topologies.capacity import cpu_model_read
from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.figures import SETTLED, load_usual, rate_smoothed
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import FlowRates, Topology
from controlplane.topologies.outcomes import operations_end
from controlplane.topologies.reports import states_apply, topology_reported
from controlplane.topologies.representation import TOPOLOGY_METRICS, topology_change
from controlplane.topologies.rows import Rows
from controlplane.topologies.samples import sample_take
from controlplane.topologies.tentative import tentative_apply
from controlplane.wording import some_of
from domain.availability import QueryHealth
from domain.capacity import PACE_UNKNOWN, Pace
from domain.capacity.saturation import FULL
from domain.messages import DriverStatus, EpochReport

CAUGHT_UP, FALLEN_BEHIND = 3, 20
"""Epochs that a replica may lack to count as caught up, and to go on counting."""

METRICS_EVERY = timedelta(seconds=1)
_HALTED = frozenset({TopologyStatus.PAUSED, TopologyStatus.COMPLETED, TopologyStatus.FAILED})
"""What a report of an epoch before it does not end: the sweep may have read of it first."""
# Messages are a little irregular: without slack every second one of a 1 s rhythm would be dropped.
# What one event comes early, the next one waits longer, so there is still no more than one a second.
METRICS_SLACK = timedelta(milliseconds=250)


@writing
def topology_metrics_apply(
    *, report: EpochReport, health: Mapping[str, QueryHealth], pace: Pace = PACE_UNKNOWN
) -> None:
    """Store an epoch report; publish it unless the topology had a metrics event within the last second."""
    topology = topology_reported(report.topology, report.generation)
    if topology is None or (topology.status in _HALTED and report.ended_at < topology.told_at):
        return
    rows = Rows.load(topology)
    status, standing = topology.status, rows.standing()
    interval = graph_of(topology.spec).spec.epoch_interval
    seconds = _span(report, interval)
    _rows_measure(rows, report, seconds)
    _topology_measure(topology, report, pace, interval)
    states_apply(rows, report.state, absent=report.absent, health=health)
    in_peace = topology.status == TopologyStatus.RUNNING and pace.overloaded_since is None
    if in_peace and pace.load is not None and pace.load < FULL:
        topology.usual_load = load_usual(topology.usual_load, pace.load, seconds)
    rows.save()
    now = timezone.now()
    if report.rates or report.flows:
        averages = {"at": now, "given": report.rates, "pairs": report.flows}
        FlowRates.objects.update_or_create(topology=topology, defaults=averages)
    due, last = _metrics_due(topology, now)
    topology.save(
        update_fields=[
            "status", "applied_generation", "head_epoch", "committed_epoch", "acting", "metrics_at",
            "updated_at", *SETTLED,
        ]
    )  # fmt: skip
    if not due and (status, standing) == (topology.status, rows.standing()):
        return
    at = topology.metrics_at or now
    whole = round_begins(rows=len(rows.partitions), last=last, now=at, offset=topology.pk)
    told = TOPOLOGY_METRICS if topology.status == status else None
    changes = [topology_change(topology, only=told), *rows.metrics_changes(standing, all_partitions=whole)]
    if rows.queries:
        changes.append(sample_take(rows, at=now))
    event_publish(
        kind=EventKind.TOPOLOGY_METRICS if due else EventKind.TOPOLOGY_UPDATED,
        topology=topology.name,
        changes=changes,
    )


def _rows_measure(rows: Rows, report: EpochReport, seconds: float) -> None:
    """What partitions and queries did in the `seconds` that the report stands for."""
    shares = cpu_model_read(rows.topology.name, rows.topology.cpu_model).shares
    for label, metrics in report.partitions.items():
        partition = rows.partitions.get(label)
        if partition is None:
            continue
        partition.node_id = rows.nodes.ids.get(metrics.node, partition.node_id)
        partition.epoch = metrics.epoch
        if metrics.cost is not None:
            cores = shares.partitions(operators=metrics.cost, tuples=metrics.tuple_rate or 0.0)
            partition.cpu = round(cores, 6)
        read = rate_smoothed(partition.rows_in_rate, metrics.rows_in / seconds, seconds)
        given = rate_smoothed(partition.rows_out_rate, metrics.rows_out / seconds, seconds)
        partition.rows_in_rate, partition.rows_out_rate = round(read, 1), round(given, 1)
        partition.state_bytes = metrics.state_bytes
    for label, measured in report.queries.items():
        query = rows.queries.get(label)
        if query is not None:
            query.epoch = measured.epoch
            query.latency = measured.latency


def _topology_measure(topology: Topology, report: EpochReport, pace: Pace, epoch_interval: float) -> None:
    """How far it is and how well it keeps pace; `epoch_interval` in seconds."""
    topology.head_epoch = report.head
    topology.committed_epoch = report.committed
    if report.last >= report.first:  # a replay reads no new input
        span = epoch_interval * (report.last - report.first + 1)
        topology.input_rate = rate_smoothed(topology.input_rate, report.input_rate, span)
    topology.load, topology.lag, topology.load_falls = pace.load, pace.lag, pace.falls
    since = pace.overloaded_since
    topology.overloaded_since = None if since is None else datetime.fromtimestamp(since, tz=UTC)


def _span(report: EpochReport, epoch_interval: float) -> float:
    """Seconds of real time that a report stands for: while keeping pace, the intervals of its epochs;
    while catching up, the time the job took."""
    took = max(report.ended_at - report.started_at, 1e-3)
    if report.state != "running":
        return took
    return max(took, epoch_interval * (report.last - report.first + 1))


def _metrics_due(topology: Topology, now: datetime) -> tuple[bool, datetime | None]:
    """Whether metrics are to be told by now, which is noted, and when they were told before."""
    last = topology.metrics_at
    if last is not None and last > now + METRICS_EVERY:
        last = None  # the clock was put back
    next_at = now if last is None else last + METRICS_EVERY
    due = now >= next_at - METRICS_SLACK
    if due:
        topology.metrics_at = max(now, next_at)
    return due, last


@writing
def driver_status_apply(*, status: DriverStatus) -> None:
    """Store what a driver says of itself; one event when something changed."""
    topology = topology_reported(status.topology, status.generation)
    if topology is None or _is_overtaken(topology, status):
        return
    rows = Rows.load(topology)
    was, before, rows_before = topology.status, topology_change(topology), rows.changes()
    available_before = rows.available(), rows.tentative()
    now = timezone.now()
    _standing_apply(topology, status, now)
    taken = _replicas_apply(rows, status)
    begun = tentative_apply(topology, rows, status.tentative, generation=status.generation, at=now)
    states_apply(rows, status.state, absent=status.absent, behind=status.behind)
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
            changes.append(sample_take(rows, at=now))
        event_publish(
            kind=_driver_event(was, topology.status, taken=bool(taken), begun=bool(begun)),
            topology=topology.name,
            changes=changes,
            reason=". ".join(filter(None, (_taken_over(taken), _begun(begun)))) or status.error,
        )
    if taken:
        task_send_on_commit(TOPOLOGY_STEP, topology.name)
    operations_end(topology, status.state, status.error)


def _is_overtaken(topology: Topology, status: DriverStatus) -> bool:
    """Whether something later is known of the same driver, or of one after it. The sweep and the telemetry
    stream overtake each other. Another driver with a lower number has an epoch log from a backup."""
    return status.at < topology.told_at and status.life <= topology.told_life


def _standing_apply(topology: Topology, status: DriverStatus, now: datetime) -> None:
    """How far the driver says that it is, what is wrong, and what lags."""
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
    topology.slow_since = {node: topology.slow_since.get(node, now.isoformat()) for node in status.slow}
    topology.keys = msgspec.to_builtins(status.keys)


def _replicas_apply(rows: Rows, status: DriverStatus) -> dict[str, str]:
    """What the driver says of replicas; returns takeovers that are news: partition -> node."""
    topology, before = rows.topology, rows.topology.shadows
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
    return f"the replicas of {some_of([*taken])} have taken over"


def _begun(begun: Mapping[str, float]) -> str:
    if not begun:
        return ""
    least, most = round(100 * min(begun.values())), round(100 * max(begun.values()))
    share = f"{least} %" if least == most else f"{least} to {most} %"
    return f"{some_of([*begun])} go on with about {share} of their input"


def _driver_event(was: str, status: str, *, taken: bool, begun: bool) -> EventKind:
    if taken:
        return EventKind.TOPOLOGY_TAKEN_OVER
    if begun:
        return EventKind.QUERY_TENTATIVE
    if status != was and status == TopologyStatus.COMPLETED:
        return EventKind.TOPOLOGY_COMPLETED
    if status != was and status == TopologyStatus.FAILED:
        return EventKind.TOPOLOGY_FAILED
    return EventKind.TOPOLOGY_UPDATED


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
        states_apply(rows, "stopped")
        rows.save()
        topology.acting, topology.shadows = {}, {}
        topology.save(update_fields=["status", "acting", "shadows", "updated_at", *SETTLED])
        event_publish(
            kind=EventKind.TOPOLOGY_UPDATED,
            topology=name,
            changes=[topology_change(topology), *rows.changes()],
        )
    operations_end(topology, "stopped", "")
