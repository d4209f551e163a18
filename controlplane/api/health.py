"""Health as REST shows it: what the pages show, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rest_framework import serializers

from controlplane.errors import Missing
from controlplane.events.representation import EntityKind, Fields
from controlplane.health.marks import healths_shown
from controlplane.health.reading import Healths, Reading
from domain.health import TONES

HEALTHS = "healths"
"""In the context of a serializer of many rows: their health by key, read once."""

_KEYS: dict[EntityKind, Callable[[Any], str]] = {
    "topology": lambda row: str(row.name),
    "query": lambda row: f"{row.topology.name}/{row.partition.label}",
    "node": lambda row: str(row.name),
    "incident": lambda row: str(row.number),
}


class HealthSerializer(serializers.Serializer):
    """The state of something and the word for it, as everything that shows it says it."""

    state = serializers.CharField(help_text="for programs")
    word = serializers.CharField(help_text="for people")
    tone = serializers.ChoiceField(TONES, help_text="how it looks")
    value = serializers.FloatField(allow_null=True, help_text="the number that is judged")
    limit = serializers.FloatField(
        allow_null=True,
        help_text="what it is judged by: a relative latency, or how many queries there are",
    )
    note = serializers.CharField(help_text="a sentence that says more, or empty")
    since = serializers.DateTimeField(allow_null=True, help_text="since when `state` is this one")

    def __init__(self, entity: EntityKind = "topology", **options: Any) -> None:
        self._entity = entity
        super().__init__(source="*", read_only=True, **options)

    def to_representation(self, instance: Any) -> Fields:
        key = _KEYS[self._entity](instance)
        known: dict[str, Fields] | None = self.context.get(HEALTHS)
        shown = (healths_of(self._entity, [key]) if known is None else known).get(key)
        if shown is None:  # deleted since it was read
            raise Missing(f"there is no {self._entity} {key} any more")
        return shown


def healths_of(entity: EntityKind, keys: Iterable[str]) -> dict[str, Fields]:
    """By key."""
    wanted = [*keys]
    found: Healths
    match entity:
        case "topology":
            found = Reading(wanted).topologies
        case "query":
            found = Reading({key.partition("/")[0] for key in wanted}).queries
        case "node":
            found = Reading(()).nodes(wanted)
        case _:
            found = Reading(()).incidents([int(key) for key in wanted])
    return healths_shown(entity, {key: found[key] for key in wanted if key in found})


def health_added(
    entity: EntityKind, rows: list[dict[str, Any]], key: Callable[[dict[str, Any]], str]
) -> None:
    """Give rows that were read as tuples their health; those that were deleted since are left out."""
    found = healths_of(entity, [key(row) for row in rows])
    rows[:] = [{**row, "health": found[key(row)]} for row in rows if key(row) in found]
