"""The live view without a terminal: plain lines of the present state, then of each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cli.figures import available, judged, measured
from cli.live.state import Fields, State, worst
from cli.waves import wave_moves, wave_partitions, wave_places, wave_queries, wave_state
from cli.words import age, between, clock, listed, plain, plural, rate, relative, since, stopwatch

ROUTINE = frozenset(
    {"checkpoint.started", "checkpoint.completed", "topology.metrics", "node.metrics", "alert.updated"}
)
"""Kinds that come every few seconds while all is well."""


def about(event: Mapping[str, Any]) -> str:
    incident = event.get("incident")
    parts = (event.get("topology"), event.get("node"), f"incident {incident}" if incident else None)
    return ", ".join(part for part in parts if part)


def line_of(event: Mapping[str, Any]) -> str:
    """One event for a person: 14:02:11 node.lost node-4: no heartbeat for 4.3 s."""
    reason = f": {event['reason']}" if event.get("reason") else ""
    actor = f" (by {event['actor']})" if event.get("actor") else ""
    return plain(f"{clock(event['at'])}  {event['kind']}  {about(event)}{reason}{actor}")


def summary(shown: State) -> Iterator[str]:
    """The present state, most urgent first."""
    for incident in shown.incidents_open():
        yield from _incident(shown, incident)
    queries = shown.queries()
    for row in shown.topologies():
        own = queries[row["name"]]
        figures = f", {_available(row)}" if judged(row) else ""
        if measured(row):
            figures += f", worst latency {relative(worst(own))}, {rate(row['input_rate'])} tuples/s"
        yield plain(f"topology {row['name']}: {row['health']['word']}{figures}{_note(row)}")
    for query in shown.queries_down():
        yield plain(
            f"query {query['topology']} {query['partition']}: {query['health']['word']}, "
            f"priority {query['priority']}, latency {relative(query['health']['value'])}"
        )
    counts = Counter(str(row["health"]["word"]).lower() for row in shown.nodes())
    yield plain(f"nodes: {', '.join(f'{counts[name]} {name}' for name in sorted(counts)) or 'none'}")
    for node in shown.nodes():
        if node["health"]["state"] != "alive":
            heard = age(since(node["last_heartbeat"], shown.now()))
            yield plain(f"node {node['name']}: {node['health']['word']}, {node['rack']}, heartbeat {heard}")


def _incident(shown: State, incident: Fields) -> Iterator[str]:
    number = incident["number"]
    spent = stopwatch(between(incident["detected_at"], shown.now().isoformat()) or 0)
    yield plain(
        f"incident {number}: {incident['health']['word']} for {spent}, {incident['method']}"
        f"{_lost(incident)}{_note(incident)}"
    )
    for plan in shown.plans(number):
        back = plural(len(wave_queries(plan)), "query", "queries")
        yield plain(
            f"incident {number} wave {plan['wave']} of {plan['topology']}: {wave_state(plan)}, "
            f"{wave_partitions(plan)}{f' {wave_places(plan, 4)}' if wave_moves(plan) else f', {back}'}"
        )
    for topology, proposal in sorted(incident["proposals"].items()):
        yield plain(f"incident {number} wave {proposal['wave']} of {topology}: waits for approval")


def _lost(incident: Fields) -> str:
    lost = incident["failed_nodes"]
    return f", lost {listed(lost)}" if lost else ""


class Changes:
    """Lines for the changes from one state to the next."""

    def __init__(self, shown: State) -> None:
        self._shown = shown
        self._available = self._counts()

    def lines(self, events: Iterable[Fields]) -> Iterator[str]:
        """To be called after the state has taken the events in."""
        for event in events:
            if event["kind"] not in ROUTINE:
                yield line_of(event)
        now = self._counts()
        for name, words in now.items():
            if self._available.get(name) != words:
                yield plain(f"topology {name}: {words}")
        self._available = now

    def _counts(self) -> dict[str, str]:
        return {row["name"]: _available(row) for row in self._shown.topologies() if judged(row)}


def _available(topology: Mapping[str, Any]) -> str:
    part, whole = available(topology).split("/")
    return f"{part} of {whole} queries available"


def _note(row: Mapping[str, Any]) -> str:
    return f" ({row['health']['note']})" if row["health"]["note"] else ""


def document(shown: State) -> dict[str, Any]:
    """The present state as one JSON object of the snapshot's entities, for scripts."""
    queries = shown.queries()
    return {
        "sequence": shown.sequence,
        "at": shown.now().isoformat(),
        "incidents": [{**row, "waves": shown.plans(row["number"])} for row in shown.incidents_open()],
        "topologies": [
            {
                **{name: value for name, value in row.items() if name != "graph"},
                "queries_available": row["health"]["value"],
                "queries_total": len(queries[row["name"]]),
            }
            for row in shown.topologies()
        ],
        "queries_down": shown.queries_down(),
        "nodes": shown.nodes(),
    }
