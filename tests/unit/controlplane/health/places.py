"""Every place that shows health, read at one sequence number, and where two of them contradict each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from cli.commands.incidents import INCIDENTS
from cli.commands.nodes import NODES
from cli.commands.queries import QUERIES
from cli.commands.topologies import TOPOLOGIES
from cli.live.lines import summary
from cli.live.state import State
from cli.live.view import Link, view
from cli.output import Columns
from controlplane.api.health import HEALTHS, healths_of
from controlplane.api.incidents.serializers import IncidentSerializer, incidents_shown
from controlplane.api.nodes.views import NodeViewSet
from controlplane.api.renderers import json_write
from controlplane.api.topologies.parts import QueryViewSet
from controlplane.api.topologies.serializers import TopologySerializer
from controlplane.config.metrics import ControlPlaneCollector
from controlplane.events.models import Event
from controlplane.incidents.selectors import incident_list
from controlplane.topologies.selectors import query_list, topology_list
from controlplane.webhooks.models import Delivery
from controlplane.webhooks.payload import body_of
from tests.unit.controlplane.following import plain, snapshot_read

JUDGED = ("topology", "query", "node", "incident")
Rows = dict[str, dict[str, Any]]


class Places:
    """A page or `resurge watch` that follows events from a snapshot, beside everything else."""

    def __init__(self) -> None:
        self.shown = State()
        self.shown.load(plain(snapshot_read()))

    def contradictions(self) -> Iterator[str]:
        """To be asked after each change: at every sequence number since the last time."""
        for event in Event.objects.filter(sequence__gt=self.shown.sequence).order_by("sequence"):
            self.shown.apply([{"changes": plain(event.changes)}], event.sequence)
            yield from self._webhook(event)
            yield from _nonsense(self.shown)
            yield from _text(self.shown)
        yield from _differences(
            "snapshot and events", plain(snapshot_read())["entities"], self.shown.entities
        )
        yield from _differences("REST and events", rest_read(), self.shown.entities)
        yield from _metrics(self.shown)
        view(self.shown, Link("server", True, ""), 100)

    def _webhook(self, event: Event) -> Iterator[str]:
        """What is sent with an event is what a page shows after it."""
        body = json.loads(body_of(Delivery(kind=event.kind, sequence=event.sequence)))
        for change in body["data"]["changes"] or ():
            if change["entity"] not in JUDGED or change["fields"] is None:
                continue
            shown = self.shown.entities[change["entity"]].get(change["key"], {}).get("health")
            if "health" in change["fields"] and change["fields"]["health"] != shown:
                yield f"webhook and page: {change['key']} {change['fields']['health']} != {shown}"


def rest_read() -> dict[str, Rows]:
    """What lists over REST have, with their own code below the request."""
    topologies = [*topology_list().defer("spec")]
    context = {HEALTHS: healths_of("topology", [row.name for row in topologies])}
    queries, nodes = QueryViewSet(), NodeViewSet()
    nodes.action = "list"
    rows = [row for one in topologies for row in queries.tuple_rows(query_list(one.name))]
    listed = _plain(incidents_shown(incident_list()))
    single = [IncidentSerializer(one).data["health"] for one in incident_list()[:1]]
    if single and single[0] != listed[0]["health"]:
        raise AssertionError(f"an incident by itself: {single[0]} != {listed[0]['health']}")
    shown = TopologySerializer(topologies, many=True, context=context).data
    return {
        "topology": {row["name"]: row for row in _plain(shown)},
        "query": {f"{row['topology']}/{row['partition']}": row for row in _plain(rows)},
        "node": {row["name"]: row for row in _plain(nodes.tuple_rows(nodes.get_queryset()))},
        "incident": {str(row["number"]): row for row in listed},
    }


def _plain(rows: Any) -> Any:
    return json.loads(json_write(rows))


def _differences(what: str, one: dict[str, Rows], other: dict[str, Rows]) -> Iterator[str]:
    for kind in JUDGED:
        for key in one[kind].keys() | other[kind].keys():
            left, right = (side[kind].get(key, {}).get("health") for side in (one, other))
            if left != right:
                yield f"{what}: {kind} {key}: {left} != {right}"
    for row in one["topology"].values():
        judged = [q["health"]["value"] for q in other["query"].values() if q["topology"] == row["name"]]
        worst = max((value for value in judged if value is not None), default=None)
        if (
            worst is not None
            and "queries_available" in row
            and worst != round(row["worst_relative_latency"], 4)
        ):
            yield f"{what}: {row['name']}: worst {row['worst_relative_latency']} beside {judged}"
        if "queries_available" in row and row["health"]["value"] not in (None, row["queries_available"]):
            yield f"{what}: {row['name']}: {row['queries_available']} beside {row['health']}"


COLUMNS: dict[str, tuple[Columns, str]] = {
    "topology": (TOPOLOGIES, "STATUS"),
    "query": (QUERIES, "STATUS"),
    "node": (NODES, "STATE"),
    "incident": (INCIDENTS, "STATE"),
}


def _text(shown: State) -> Iterator[str]:
    """The command line says the server's words, and its live views name what is open, down and there."""
    for kind, (columns, title) in COLUMNS.items():
        cell = next(column for column in columns if column.title == title)
        for key, row in shown.entities[kind].items():
            text = cell.value(row)
            if not isinstance(text, Text) or not text.plain.endswith(row["health"]["word"]):
                yield f"command line: {kind} {key}: {text} beside {row['health']}"
    lines = [*summary(shown)]
    for row in shown.topologies():
        health = row["health"]
        line = next(line for line in lines if line.startswith(f"topology {row['name']}: "))
        counted = (
            f"{health['value']:.0f} of {health['limit']:.0f} queries" if health["limit"] is not None else ""
        )
        if health["word"] not in line or counted not in line or (not counted and "queries available" in line):
            yield f"lines: {line} beside {health}"
    for row in shown.entities["incident"].values():
        told = any(line.startswith(f"incident {row['number']}: {row['health']['word']}") for line in lines)
        if told != (row["closed_at"] is None):
            yield f"lines: incident {row['number']} {'is' if told else 'is not'} told: {row['health']}"


def _metrics(shown: State) -> Iterator[str]:
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in ControlPlaneCollector().collect()
        for sample in family.samples
    }
    for name, row in shown.entities["topology"].items():
        health = row["health"]
        for metric, value in (
            ("resurge_queries_available", health["value"]),
            ("resurge_queries", health["limit"]),
        ):
            if found.get((metric, name)) != value:
                yield f"metrics: {metric} of {name} is {found.get((metric, name))} beside {health}"
        if ("resurge_topology_health", name, health["state"]) not in found:
            yield f"metrics: {name} is not {health['state']}"
    nodes = Counter(row["health"]["state"] for row in shown.entities["node"].values())
    if nodes != {key[1]: value for key, value in found.items() if key[0] == "resurge_nodes"}:
        yield f"metrics: {found} beside nodes {nodes}"
    opened = [row for row in shown.entities["incident"].values() if row["closed_at"] is None]
    if found["resurge_incidents_open",] != len(opened):
        yield f"metrics: {found['resurge_incidents_open',]} open incidents beside {len(opened)}"


def _nonsense(shown: State) -> Iterator[str]:
    """What no page may ever show together."""
    queries: dict[str, list[dict[str, Any]]] = shown.queries()
    for name, row in shown.entities["topology"].items():
        health, own = row["health"], [query["health"] for query in queries[name]]
        states = Counter(one["state"] for one in own)
        if health["limit"] is not None:
            if (health["value"], health["limit"]) != (states["available"], len(own)):
                yield f"{name} counts {health['value']} of {health['limit']}, and its queries are {states}"
            if health["state"] == "running" and states["available"] + states["parked"] != len(own):
                yield f"{name} is running, and its queries are {states}"
        elif states["available"] or states["failed"] or states["recovering"]:
            yield f"{name} is {health['word']}, and its queries are {states}"
        for query in queries[name]:
            yield from _nonsense_of_query(query)
    active = [one for one in shown.entities["incident"].values() if one["closed_at"] is None]
    for incident in shown.entities["incident"].values():
        yield from _nonsense_of_incident(incident)
    awaited = {name for incident in active for name in incident["failed_nodes"]}
    awaited |= {row["node"] for row in shown.entities["partition"].values()}
    for name, node in shown.entities["node"].items():
        past = node["state"] in ("lost", "left") and name not in awaited
        if past != (node["health"]["state"] in ("replaced", "gone")):
            yield f"{name} is {node['state']}, {'not ' if past else ''}awaited, and shown as {node['health']}"


def _nonsense_of_query(query: dict[str, Any]) -> Iterator[str]:
    health = query["health"]
    if health["value"] is not None and health["value"] != query["relative_latency"]:
        yield f"{query['partition']}: {query['relative_latency']} beside {health}"
    if health["limit"] is not None:
        if health["state"] == "available" and health["value"] > health["limit"]:
            yield f"{query['partition']} is available above its limit: {health}"
        if health["state"] != "available" and health["tone"] == "good":
            yield f"{query['partition']} is not available and green: {health}"
    if (health["state"] == "available") and not query["available"]:
        yield f"{query['partition']} is shown available and is not"


def _nonsense_of_incident(incident: dict[str, Any]) -> Iterator[str]:
    health, number = incident["health"], incident["number"]
    ended = health["state"] in ("recovered", "moved", "incomplete", "aborted")
    if ended != (incident["closed_at"] is not None):
        yield f"incident {number} is {health}, closed at {incident['closed_at']}"
    if health["state"] in ("recovered", "moved") and health["value"] != health["limit"]:
        yield f"incident {number} is {health['word']} with {health['value']} of {health['limit']} back"
    if (incident["state"] == "aborted") != (health["state"] == "aborted"):
        yield f"incident {number} is {incident['state']} and shown as {health}"
    waits = bool(incident["proposals"]) and not ended
    if waits != ("approval" in health["word"]):
        yield f"incident {number} has {len(incident['proposals'])} proposals and is shown as {health}"
    if incident["all_queries_at"] is not None and health["value"] != health["limit"]:
        yield f"incident {number}: all queries are back, and {health['value']} of {health['limit']}"
