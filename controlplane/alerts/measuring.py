"""What rules judge, read from the database: the value of every subject of every rule (read side).

A constant number of queries, whatever the number of topologies, queries and rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, FloatField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from controlplane.alerts.models import AlertRule
from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.health.reading import Reading
from controlplane.replication.models import FidelityFigure
from controlplane.topologies.choices import Guarantee, TopologyStatus
from controlplane.topologies.models import Query, Topology
from domain.alerting import METRICS
from domain.topology import partition_id

RUNS = frozenset({TopologyStatus.RUNNING, TopologyStatus.DEGRADED, TopologyStatus.RECOVERING})
JUDGED = RUNS | {TopologyStatus.DEPLOYING, TopologyStatus.FAILED}
"""States of a topology that is to give results. One that is paused, stopped or completed has no alerts."""
FRESH, EPOCHS = timedelta(seconds=30), 3
"""A latency or lag that no report of the driver has renewed for so long, and for as many epochs, is one of
then, so none of now."""
AHEAD = timedelta(seconds=30)
"""By which the clock of a driver's host may be ahead."""
OF_CHECKPOINTS = frozenset({"checkpoint_age", "checkpoint_intervals"})
WORDS: Mapping[str, str] = dict(TopologyStatus.choices)

Subject = tuple[str, str]
"""Topology and query; an empty query stands for the whole topology."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """state: of its health. relative, latency: None where nothing is measured now."""

    priority: int
    state: str
    relative: float | None
    latency: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is known of a topology that is to give results; None where there is no value. runs: it is neither
    being deployed nor failed; of one that is, only the availability is judged. bounded: its guarantee, with
    which there are no checkpoints."""

    runs: bool
    bounded: bool
    lag: float | None
    checkpoint_age: float | None
    checkpoint_interval: float
    fidelity: float | None
    fidelity_worst_rack: float | None
    queries: dict[str, QueryFigures] = field(default_factory=dict)

    def of(self, metric: str, priority: int) -> Iterator[tuple[str, float | None]]:
        """(query, value) of each subject; the query is "" for a value of the whole topology."""
        if not self.runs and metric != "availability":
            return
        if self.bounded and metric in OF_CHECKPOINTS:
            return
        match metric:
            case "query_relative_latency" | "query_latency":
                for label, query in self.queries.items():
                    if query.priority >= priority and query.state != "parked":
                        yield label, query.relative if metric == "query_relative_latency" else query.latency
            case "availability":
                if self.has_queries(priority):
                    yield "", self.availability(priority)
            case "lag":
                yield "", self.lag
            case "checkpoint_age":
                yield "", self.checkpoint_age
            case "checkpoint_intervals":
                yield "", self.checkpoint_intervals
            case "fidelity":
                yield "", self.fidelity
            case "fidelity_rack_loss":
                yield "", self.fidelity_worst_rack

    @property
    def checkpoint_intervals(self) -> float | None:
        return None if self.checkpoint_age is None else self.checkpoint_age / self.checkpoint_interval

    def has_queries(self, priority: int = 1) -> bool:
        """Whether any query of that priority is to give results."""
        return any(one.state != "parked" and one.priority >= priority for one in self.queries.values())

    def availability(self, priority: int = 1) -> float:
        """By priority, of the queries that are not parked."""
        wanted = [one for one in self.queries.values() if one.state != "parked" and one.priority >= priority]
        total = sum(one.priority for one in wanted)
        return sum(one.priority for one in wanted if one.state == "available") / total if total else 0.0


class Measured:
    """The figures of all topologies at one moment."""

    def __init__(self, at: datetime, reading: Reading | None = None) -> None:
        self.at = at
        self.statuses: dict[str, str] = {}
        self.figures: dict[str, Figures] = {}
        self._read(reading or Reading())

    def values(self, rule: AlertRule) -> dict[Subject, float | None]:
        """Of every subject that the rule judges now."""
        wanted = self.figures.items() if not rule.topology else self._only(rule.topology)
        return {
            (name, query): None if value is None else float(f"{value:.9g}")
            for name, figures in wanted
            for query, value in figures.of(rule.metric, rule.priority)
        }

    def absent(self, rule: AlertRule, subject: Subject) -> str:
        """Why a rule does not judge a subject that it has judged."""
        topology, query = subject
        if topology not in self.statuses:
            return f"there is no topology {topology} any more"
        if topology not in self.figures:
            return f"the topology is {WORDS[self.statuses[topology]].lower()}"
        if rule.topology not in ("", topology):
            return f"the rule judges {rule.topology} only"
        figures = self.figures[topology]
        if not figures.runs and rule.metric != "availability":
            return f"the topology is {WORDS[self.statuses[topology]].lower()}"
        if figures.bounded and rule.metric in OF_CHECKPOINTS:
            return "its guarantee is bounded, so it has no checkpoints"
        if query and query not in figures.queries:
            return "there is no such query any more"
        if METRICS[rule.metric].by_priority and not query and not figures.has_queries(rule.priority):
            return "there is no query that it judges"
        if query and figures.queries[query].state == "parked":
            return "the query is parked"
        return "its priority is too low for the rule"

    def _only(self, name: str) -> Collection[tuple[str, Figures]]:
        return [(name, self.figures[name])] if name in self.figures else []

    def _read(self, reading: Reading) -> None:
        checkpoints = _newest_checkpoints()
        fidelities = {
            pk: (now, worst)
            for pk, now, worst in FidelityFigure.objects.values_list("topology", "now", "worst_rack")
        }
        queries = _queries(reading)
        own = (
            Cast(KeyTextTransform(name, "spec"), FloatField())
            for name in ("checkpoint_interval", "epoch_interval")
        )
        columns = ("pk", "name", "status", "guarantee", "lag", "metrics_at", "deployed_at")
        rows = Topology.objects.values_list(*columns, *own)
        for pk, name, status, guarantee, lag, metrics_at, deployed_at, interval, epoch in rows:
            self.statuses[name] = status
            if status not in JUDGED:
                continue
            runs = status in RUNS
            most = max(FRESH, EPOCHS * timedelta(seconds=epoch or 0.0))
            # Of a clock that was put back, the last report may be one of the future.
            fresh = runs and metrics_at is not None and abs(self.at - metrics_at) < most
            begun = _last_of(self.at, checkpoints.get(pk), deployed_at)
            now, worst = fidelities.get(pk, (None, None))
            self.figures[name] = Figures(
                runs=runs,
                bounded=guarantee == Guarantee.BOUNDED,
                lag=lag if fresh else None,
                checkpoint_age=None if begun is None else max(0.0, (self.at - begun).total_seconds()),
                checkpoint_interval=interval or settings.RESURGE.checkpoint_interval,
                fidelity=now,
                fidelity_worst_rack=worst,
                queries={
                    label: query if fresh else _unmeasured(query) for label, query in queries[name].items()
                },
            )


def _last_of(now: datetime, *moments: datetime | None) -> datetime | None:
    """The last of these. What is still to come, by more than clocks differ, is of before the clock was put
    back, and counts only if there is nothing else."""
    known = [one for one in moments if one is not None]
    return max([one for one in known if one <= now + AHEAD] or known, default=None)


def _unmeasured(query: QueryFigures) -> QueryFigures:
    return QueryFigures(priority=query.priority, state=query.state, relative=None, latency=None)


def _queries(reading: Reading) -> defaultdict[str, dict[str, QueryFigures]]:
    """By topology and id, with the health that pages show."""
    found: defaultdict[str, dict[str, QueryFigures]] = defaultdict(dict)
    columns = ("topology__name", "partition__operator", "partition__index", "priority", "latency")
    for name, operator, index, priority, latency in Query.objects.order_by("pk").values_list(*columns):
        label = partition_id(operator, index)
        health = reading.queries.get(f"{name}/{label}")
        if health is None:  # made meanwhile
            continue
        gives = health.state in ("available", "recovering")
        found[name][label] = QueryFigures(
            priority=priority,
            state=health.state,
            relative=health.value if gives else None,
            latency=latency if gives else None,
        )
    return found


def _newest_checkpoints() -> dict[int, datetime]:
    """When the newest complete checkpoint of each topology ended."""
    newest = Checkpoint.objects.filter(epoch=F("topology__checkpoint_epoch"), state=CheckpointState.COMPLETED)
    return {pk: at for pk, at in newest.values_list("topology", "ended_at") if at is not None}
