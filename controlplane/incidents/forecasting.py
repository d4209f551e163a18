"""When an incident will be over: predicted, shown, kept, and compared with what came (write side).

The reckoning is that of `domain.forecast`. Here rows become what it needs, and what it says becomes the
column `forecast` of the incident, which all clients see, and rows that later incidents learn from.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from django.conf import settings

from controlplane.events.representation import iso
from controlplane.incidents.choices import INCIDENT_ENDED, IncidentState, PredictionKind
from controlplane.incidents.loading import queries_awaited
from controlplane.incidents.models import Incident, IncidentPrediction, RecoveryPlan
from controlplane.incidents.restorations import deployed_at, plans_read
from controlplane.nodes.choices import NODE_REQUEST_OPEN, NodeRequestState
from controlplane.nodes.models import NodeRequest
from controlplane.topologies.choices import RecoveryMethod
from controlplane.topologies.graphs import checkpoint_interval_of
from domain.availability import Policy
from domain.forecast import Outlook, Pace, Prediction, Spread, follow
from domain.forecast.outlook import NO_REPLAY, Expected, Kind, Stage
from domain.forecast.reading import (
    DELAYS,
    Asked,
    arrivals_of,
    delay_learned,
    outlook_read,
    queries_of,
)
from domain.planning import UniformDelay
from domain.recovery.incident import Deployment
from domain.recovery.machine import IncidentMachine

LEARNED_FROM = 50
"""Incidents whose predictions the ranges are made of, the newest that were recovered."""
MOST_QUERIES = 200
"""Queries of one incident whose predictions are kept; of the others they are only shown."""
MATERIAL_SECONDS, MATERIAL_SHARE = 3.0, 0.15
"""An estimate is told anew when it has moved by more than these, in seconds and as a share of what is
left."""
PARKED = "queries are parked, and the incident ends when they have returned"
COURSE: tuple[Kind, ...] = ("incident", "wave")


def forecast_follow(incident: Incident, machine: IncidentMachine, *, at: datetime) -> bool:
    """Bring the forecast of an incident up to date; the caller saves the row. Whether it has changed."""
    kept = [*incident.predictions.order_by("pk")]
    changed = _came_true(incident, kept, at)
    if incident.state in INCIDENT_ENDED:
        changed |= any(incident.forecast.get(name) for name in ("over", "waves", "queries", "held"))
        if changed:
            incident.forecast = {"course": _course(kept)}
        return changed
    spread = _spread()
    outlook = _outlook(incident, machine, at.timestamp())
    stages = {(cast(Kind, one.kind), one.subject): cast(Stage, one.stage) for one in kept}
    queries = {one.subject for one in kept if one.kind == "query"}
    fresh = [
        _row(incident, prediction)
        for prediction in follow(outlook, spread, stages)
        if prediction.kind != "query" or prediction.subject in queries or _admits(queries, prediction.subject)
    ]
    if fresh:
        IncidentPrediction.objects.bulk_create(fresh)
    shown = {**_shown(outlook, spread), "course": _course([*kept, *fresh])}
    if not changed and not fresh and not _differs(incident.forecast, shown, at):
        return False
    incident.forecast = shown
    return True


def _admits(queries: set[str], subject: str) -> bool:
    if len(queries) >= MOST_QUERIES:
        return False
    queries.add(subject)
    return True


# ---- rows to what is expected ----------------------------------------------------------------------


def _outlook(incident: Incident, machine: IncidentMachine, at: float) -> Outlook:
    plans, began = plans_read(incident), deployed_at(machine.cases)
    awaited: defaultdict[str, set[str]] = defaultdict(set)
    for key in queries_awaited(incident):
        topology, _, query = key.partition("/")
        awaited[topology].add(query)
    since = incident.detected_at.timestamp()
    deployed = {name: machine.deployments[name] for name in machine.cases if name in machine.deployments}
    intervals = {name: checkpoint_interval_of(one.topology.spec) for name, one in deployed.items()}
    verified = [intervals[name] for name, one in deployed.items() if not one.topology.spec.bounded]
    queries = [
        view
        for name, deployment in deployed.items()
        for view in queries_of(
            deployment,
            awaited=awaited[name],
            failed=machine.cases[name].failed,
            plans=plans.get(name, ()),
            checkpoint_at=_checkpoint_at(deployment, otherwise=began.get(name, since - intervals[name])),
        )
    ]
    requests = NodeRequest.objects.filter(incident=incident, state__in=NODE_REQUEST_OPEN)
    # What every topology takes on a node is not there for partitions.
    load = sum(one.node_cpu for one in machine.deployments.values())
    asked = [
        Asked(
            requested_at=request.requested_at.timestamp(),
            capacity=max(0.0, request.capacity * machine.max_utilisation - load),
        )
        for request in requests
    ]
    configured = settings.RESURGE.replacement_delay
    delay = delay_learned(_delays(), UniformDelay(configured.low, configured.high)) if asked else None
    return outlook_read(
        at=at,
        plans=plans,
        queries=queries,
        arrivals=arrivals_of(asked, delay, at) if delay is not None else (),
        pace=Pace(
            settle=Policy().window,
            verify=max(verified, default=0.0),
        ),
        together=incident.method == RecoveryMethod.BLOCKING,
        held=_held(incident),
        stays=PARKED if any(machine.memory.parked.get(name) for name in deployed) else "",
    )


def _checkpoint_at(deployment: Deployment, *, otherwise: float) -> float:
    """Since when the input is replayed that what is down has missed."""
    if deployment.topology.spec.bounded:
        return NO_REPLAY
    return deployment.checkpoint_at if math.isfinite(deployment.checkpoint_at) else otherwise


def _held(incident: Incident) -> str:
    """Why nothing can be expected of what no plan restores."""
    if incident.proposals:
        return "a plan waits for approval"
    return "no further wave is planned while the incident is paused" if incident.paused else ""


def _delays() -> list[float]:
    """Seconds that the provider took lately, oldest first."""
    joined = NodeRequest.objects.filter(
        state=NodeRequestState.JOINED, joined_at__isnull=False, incident__isnull=False
    )
    rows = joined.order_by("-joined_at").values_list("requested_at", "joined_at")[:DELAYS]
    return [(came - asked).total_seconds() for asked, came in reversed(rows)]


# ---- what came --------------------------------------------------------------------------------------


def _came_true(incident: Incident, kept: Iterable[IncidentPrediction], at: datetime) -> bool:
    """Note of predictions when what they predicted was over. Whether there were new ones."""
    returned: Mapping[str, str] = incident.summary.get("returned", {})
    caught_up = {
        f"{name}/{generation}": moment
        for name, generation, moment in RecoveryPlan.objects.filter(
            incident=incident, caught_up_at__isnull=False
        ).values_list("topology__name", "generation", "caught_up_at")
    }
    closed = incident.closed_at if incident.state == IncidentState.CLOSED else None
    if incident.summary.get("accepted"):
        closed = None  # a person has ended it
    over: list[IncidentPrediction] = []
    for one in kept:
        match one.kind:
            case PredictionKind.WAVE:
                moment = caught_up.get(one.subject)
            case PredictionKind.QUERY:
                moment = _read(returned.get(one.subject))
            case _:
                moment = closed
        if moment != one.over_at:
            one.over_at = moment
            over.append(one)
    if over:
        IncidentPrediction.objects.bulk_update(over, ["over_at"])
    return any(one.kind in COURSE for one in over)


def _spread() -> Spread:
    last = (
        Incident.objects.filter(state=IncidentState.CLOSED)
        .order_by("-closed_at")
        .values_list("number", "closed_at")
        .first()
    )
    return _spread_after(*last) if last is not None else Spread()


@lru_cache(maxsize=2)
def _spread_after(number: int, closed_at: datetime) -> Spread:
    """What incidents up to this one have shown; nothing is learned before the next one closes."""
    closed = Incident.objects.filter(state=IncidentState.CLOSED, closed_at__lte=closed_at)
    numbers = list(closed.order_by("-closed_at").values_list("pk", flat=True)[:LEARNED_FROM])
    columns = ("incident", "kind", "stage", "raw", "made_at", "over_at")
    rows = IncidentPrediction.objects.filter(incident__in=numbers, over_at__isnull=False)
    cases: defaultdict[int, list[tuple[Kind, Stage, float, float]]] = defaultdict(list)
    for pk, kind, stage, raw, made_at, over_at in rows.order_by("pk").values_list(*columns):
        cases[pk].append((kind, stage, raw, (over_at - made_at).total_seconds()))
    spread = Spread()
    for pk in reversed(numbers):
        spread.learn(case for case in cases[pk] if case[3] > 0)
    return spread


# ---- what is shown ----------------------------------------------------------------------------------


def _shown(outlook: Outlook, spread: Spread) -> dict[str, Any]:
    """Queries of which the same is expected are named together."""
    at = datetime.fromtimestamp(outlook.at, tz=UTC)
    groups: dict[tuple[str, float], list[str]] = {}
    expected: dict[tuple[str, float], Expected] = {}
    for one in outlook.queries:
        key = (one.stage, round(one.seconds, 1))
        groups.setdefault(key, []).append(one.subject)
        expected[key] = one
    return {
        "held": outlook.held,
        "over": _over(outlook.incident, spread, at) if outlook.incident is not None else None,
        "waves": [{**_over(one, spread, at), "wave": one.subject} for one in outlook.waves],
        "queries": [
            {**_over(expected[key], spread, at), "queries": sorted(names)}
            for key, names in sorted(groups.items(), key=lambda item: item[0][1])
        ],
    }


def _over(expected: Expected, spread: Spread, at: datetime) -> dict[str, Any]:
    found = spread.range_of(expected)
    return {
        "stage": expected.stage,
        **{
            name: iso(at + timedelta(seconds=seconds))
            for name, seconds in (
                ("expected_at", found.expected),
                ("low_at", found.low),
                ("high_at", found.high),
            )
        },
    }


def _course(rows: Iterable[IncidentPrediction]) -> list[dict[str, Any]]:
    """Of the incident and its waves, in the order in which they were predicted."""
    return [
        {
            "kind": str(row.kind),
            "subject": row.subject,
            "stage": str(row.stage),
            **{
                name: iso(getattr(row, name))
                for name in ("made_at", "expected_at", "low_at", "high_at", "over_at")
            },
        }
        for row in rows
        if row.kind in COURSE
    ]


def _differs(before: Mapping[str, Any], now: Mapping[str, Any], at: datetime) -> bool:
    """Whether what is shown would be another: something stands elsewhere, or an estimate has moved."""
    old, new = _outline(before), _outline(now)
    if old.keys() != new.keys() or before.get("held") != now.get("held"):
        return True
    return any(_moved(old[key], new[key], at) for key in new)


def _outline(shown: Mapping[str, Any]) -> dict[tuple[str, ...], datetime]:
    found: dict[tuple[str, ...], datetime] = {}
    if over := shown.get("over"):
        found["over", over["stage"]] = datetime.fromisoformat(over["expected_at"])
    for one in shown.get("waves", ()):
        found[one["wave"], one["stage"]] = datetime.fromisoformat(one["expected_at"])
    for one in shown.get("queries", ()):
        found[one["stage"], *one["queries"]] = datetime.fromisoformat(one["expected_at"])
    return found


def _moved(before: datetime, now: datetime, at: datetime) -> bool:
    left = max(0.0, (now - at).total_seconds())
    return abs((now - before).total_seconds()) > max(MATERIAL_SECONDS, MATERIAL_SHARE * left)


# ---- times ------------------------------------------------------------------------------------------


def _row(incident: Incident, one: Prediction) -> IncidentPrediction:
    moments = {
        name: datetime.fromtimestamp(getattr(one, name), tz=UTC)
        for name in ("made_at", "expected_at", "low_at", "high_at")
    }
    return IncidentPrediction(
        incident=incident, kind=one.kind, subject=one.subject, stage=one.stage, raw=one.raw, **moments
    )


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
