"""Every event tells the health of what it is about, and of all else whose health has changed with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils import timezone

from controlplane.events.representation import Change, EntityKind
from controlplane.health.marks import (
    Marks,
    health_fields,
    marks_keep,
    marks_of,
    marks_of_topologies,
    marks_remove,
)
from controlplane.health.reading import Healths, Reading

JUDGED: frozenset[EntityKind] = frozenset({"topology", "query", "node", "incident"})


def healths_complete(changes: Sequence[Change]) -> Sequence[Change]:
    """The changes of an event with the health that follows from them, read in its transaction.

    The health of a query depends on its topology and on its incidents, that of a topology on its queries,
    that of a node on where partitions are placed, and that of an incident on all of these. A service that
    changes a row need not know that.
    """
    if not changes:
        return changes
    touched = _topologies(changes)
    placed = any(_placed_anew(change) for change in changes)
    moved = any(_moves_node(change) for change in changes)
    recovery = any(change["entity"] in ("incident", "plan") for change in changes)
    removed = [(change["entity"], change["key"]) for change in changes if change["fields"] is None]
    if removed := [one for one in removed if one[0] in JUDGED]:
        marks_remove(removed)
    if not (touched or placed or moved or recovery):
        return changes
    telling = _Telling(changes)
    reading = Reading(touched)
    if touched:
        own, of_queries = marks_of_topologies(touched)
        telling.tell("query", reading.queries, of_queries)
        telling.tell("topology", reading.topologies, own)
    if placed or moved or recovery:
        named = telling.keys("node")
        # Whether others are still awaited depends on partitions and incidents only. Of hundreds of nodes that
        # are lost together, each has an event of its own.
        nodes = reading.nodes_gone() if placed or recovery else {}
        nodes |= reading.nodes(named) if named else {}
        telling.tell("node", nodes, marks_of("node", [*nodes]))
    named = telling.keys("incident")
    incidents = reading.incidents() | reading.incidents([int(number) for number in named])
    if incidents:
        telling.tell("incident", incidents, marks_of("incident", [*incidents]))
    return telling.changes()


class _Telling:
    def __init__(self, changes: Sequence[Change]) -> None:
        self._order = list(changes)
        self._index = {
            (change["entity"], change["key"]): place
            for place, change in enumerate(changes)
            if change["fields"] is not None and change["entity"] in JUDGED
        }
        self._at = timezone.now()

    def keys(self, kind: EntityKind) -> list[str]:
        return [key for entity, key in self._index if entity == kind]

    def tell(self, kind: EntityKind, healths: Healths, marks: Marks) -> None:
        news = marks_keep(kind, healths, marks, at=self._at)
        for key, health in healths.items():
            place = self._index.get((kind, key))
            if place is None and key not in news:
                continue
            fields = {"health": health_fields(health, marks.get(key))}
            if place is None:
                self._order.append({"entity": kind, "key": key, "fields": fields})
            else:
                one = self._order[place]
                self._order[place] = {**one, "fields": {**(one["fields"] or {}), **fields}}

    def changes(self) -> list[Change]:
        return self._order


def _topologies(changes: Iterable[Change]) -> set[str]:
    """Whose own health, or that of whose queries, may have changed."""
    found: set[str] = set()
    for change in changes:
        fields = change["fields"]
        if fields is None:
            continue
        if change["entity"] == "topology":
            found.add(change["key"])
        elif change["entity"] == "query":
            found.add(change["key"].partition("/")[0])
        elif change["entity"] == "incident":
            found.update(fields.get("topologies", ()))
    return found


def _moves_node(change: Change) -> bool:
    """Whether a node has another state."""
    return change["entity"] == "node" and "state" in (change["fields"] or {})


def _placed_anew(change: Change) -> bool:
    """Whether a partition has another place."""
    return change["entity"] == "partition" and "node" in (change["fields"] or {})
