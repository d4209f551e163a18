"""Since when health is what it is, and what of it is news (write side, and reading it)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from controlplane.events.representation import EntityKind, Fields, iso
from controlplane.health.models import HealthMark
from controlplane.health.reading import Healths
from domain.health import Health

OF_TOPOLOGIES = frozenset({"topology", "query"})
FEW = 500
"""Keys that one query of the database names; for more, all marks of the kind are read."""
_encoder = msgspec.json.Encoder()


Marks = dict[str, HealthMark]


def marks_of(entity: EntityKind, keys: Collection[str] | None = None) -> Marks:
    """By key: those of `keys`, else all."""
    rows = HealthMark.objects.filter(entity=entity)
    if keys is not None:
        rows = rows.filter(key__in=keys)
    return {mark.key: mark for mark in rows}


def marks_of_topologies(names: Collection[str]) -> tuple[Marks, Marks]:
    """Of topologies and of their queries, by key."""
    found = [*HealthMark.objects.filter(topology__in=names)]
    own = {mark.key: mark for mark in found if mark.entity == "topology"}
    return own, {mark.key: mark for mark in found if mark.entity == "query"}


def health_fields(health: Health, mark: HealthMark | None) -> Fields:
    """As clients see it. `since` is None where the state began before marks were kept."""
    known = mark is not None and mark.state == health.state
    return {**health.fields(), "since": iso(mark.since) if known and mark is not None else None}


def healths_shown(entity: EntityKind, healths: Healths) -> dict[str, Fields]:
    """By key, as clients see them."""
    marks = marks_of(entity, [*healths] if len(healths) <= FEW else None)
    return {key: health_fields(health, marks.get(key)) for key, health in healths.items()}


def digest_of(entity: EntityKind, health: Health) -> str:
    """Of what is news if it changes. The latency of a query is not: it is told whenever it is measured."""
    fields: Mapping[str, Any] = health.fields()
    if entity == "query":
        fields = {**fields, "value": health.value is None, "note": "", "tone": ""}
    return blake2b(_encoder.encode(fields), digest_size=12).hexdigest()


def marks_keep(
    entity: EntityKind, healths: Healths, marks: dict[str, HealthMark], *, at: datetime
) -> set[str]:
    """Note what is told now, also in `marks`; returns the keys of those whose health is news."""
    fresh: list[HealthMark] = []
    for key, health in healths.items():
        mark, digest = marks.get(key), digest_of(entity, health)
        if mark is not None and (mark.state, mark.digest) == (health.state, digest):
            continue
        since = mark.since if mark is not None and mark.state == health.state else at
        topology = key.partition("/")[0] if entity in OF_TOPOLOGIES else ""
        fresh.append(
            HealthMark(
                entity=entity, key=key, topology=topology, state=health.state, digest=digest, since=since
            )
        )
    if fresh:
        HealthMark.objects.bulk_create(
            fresh,
            update_conflicts=True,
            unique_fields=["entity", "key"],
            update_fields=["state", "digest", "since"],
        )
    marks.update({mark.key: mark for mark in fresh})
    return {mark.key for mark in fresh}


def marks_remove(removed: Collection[tuple[EntityKind, str]]) -> None:
    """Of entities that are no more."""
    keys: defaultdict[EntityKind, list[str]] = defaultdict(list)
    for entity, key in removed:
        keys[entity].append(key)
    for entity, gone in keys.items():
        for first in range(0, len(gone), FEW):
            HealthMark.objects.filter(entity=entity, key__in=gone[first : first + FEW]).delete()
