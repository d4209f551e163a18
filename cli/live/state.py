"""The state that a snapshot and the events after it add up to: what the live view shows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from cli.status import DOWN, ENDED, HISTORY
from cli.words import by_name, moment

Fields = dict[str, Any]
KINDS = ("topology", "query", "partition", "node", "incident", "entry", "plan", "problem")
"""Of the health of a query: it should give results and does not."""
KEPT = {"entry": 2_000, "plan": 400, "problem": 400}
"""Histories grow for ever; the server keeps the rest."""


class State:
    """Entities by kind and key, as of `sequence`. `entities[kind]` is a dictionary of fields by key."""

    def __init__(self) -> None:
        self.sequence = 0
        self.entities: dict[str, dict[str, Fields]] = {kind: {} for kind in KINDS}
        self.offset = 0.0
        """Seconds that the server's clock is ahead of this one."""

    def load(self, snapshot: Fields) -> None:
        self.sequence = int(snapshot["sequence"])
        for kind in KINDS:
            self.entities[kind] = dict(snapshot["entities"].get(kind, {}))
        at = moment(snapshot["server_time"])
        if at is not None:
            self.offset = (at - datetime.now(UTC)).total_seconds()

    def apply(self, events: Iterable[Fields], sequence: int) -> None:
        """Changes are merged into what is there; fields of None remove an entity."""
        for event in events:
            for change in event["changes"]:
                rows = self.entities.get(change["entity"])
                if rows is None:
                    continue
                key, fields = change["key"], change["fields"]
                if fields is None:
                    rows.pop(key, None)
                else:
                    rows[key] = {**rows.get(key, {}), **fields}
        self.sequence = sequence
        for kind, most in KEPT.items():
            rows = self.entities[kind]
            if len(rows) > most * 1.1:
                for key in list(rows)[: len(rows) - most]:
                    del rows[key]

    def now(self) -> datetime:
        """The server's time."""
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() + self.offset, UTC)

    def topologies(self) -> list[Fields]:
        return sorted(self.entities["topology"].values(), key=lambda row: by_name(row["name"]))

    def queries(self) -> dict[str, list[Fields]]:
        """By topology, those worth most first."""
        found: dict[str, list[Fields]] = {row["name"]: [] for row in self.topologies()}
        for row in self.entities["query"].values():
            found.setdefault(row["topology"], []).append(row)
        for rows in found.values():
            rows.sort(key=lambda row: (-row["priority"], by_name(row["partition"])))
        return found

    def queries_down(self) -> list[Fields]:
        """Those that should give results and do not, by topology."""
        rows = self.queries()
        return [row for name in rows for row in rows[name] if row["health"]["state"] in DOWN]

    def nodes(self) -> list[Fields]:
        """Without those that are history: gone, while no incident and no partition waits for them."""
        rows = (row for row in self.entities["node"].values() if row["health"]["state"] not in HISTORY)
        return sorted(rows, key=lambda row: by_name(row["name"]))

    def incidents_open(self) -> list[Fields]:
        rows = (row for row in self.entities["incident"].values() if row["health"]["state"] not in ENDED)
        return sorted(rows, key=lambda row: -row["number"])

    def plans(self, incident: int) -> list[Fields]:
        rows = (row for row in self.entities["plan"].values() if row["incident"] == incident)
        return sorted(rows, key=lambda row: (row["topology"], row["generation"]))

    def newest_entry(self, incident: int) -> Fields | None:
        rows = (row for row in self.entities["entry"].values() if row["incident"] == incident)
        return max(rows, key=lambda row: str(row["at"]), default=None)


def worst(queries: Iterable[Fields]) -> float | None:
    """The worst relative latency among those that have one."""
    return max(
        (row["health"]["value"] for row in queries if row["health"]["value"] is not None), default=None
    )
