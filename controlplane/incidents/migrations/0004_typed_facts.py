"""Facts of the story become records with fixed fields (`domain.recovery.facts`): those in the database follow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import migrations

Data = dict[str, Any]

CHANGED = ("lost", "asked", "unrestored")
"""Kinds of facts; the others are recorded as before."""


def fact_now(data: Data, at: datetime) -> Data:
    """A fact as it is recorded now; `at` is when its entry was written. The first version of the machine left
    out some fields, which meant what is filled in here."""
    match data["fact"]:
        case "lost":
            return {"avoid": [], "at": at.timestamp(), **data}
        case "asked":
            return {"checkpoint": None, **data}
        case "unrestored":
            kept = {name: value for name, value in data.items() if name != "owed"}
            return {"forced": False, "rollback_pending": data.get("owed", False), **kept}
    return data


def fact_before(data: Data, at: datetime) -> Data:
    """The same fact as the version before recorded it."""
    if data["fact"] != "unrestored":
        return data
    kept = {name: value for name, value in data.items() if name != "rollback_pending"}
    return {"owed": data["rollback_pending"], **kept}


def rewrite(change: Callable[[Data, datetime], Data]) -> Callable[[Any, Any], None]:
    def migrate(apps: Any, schema_editor: Any) -> None:
        entries = apps.get_model("incidents", "IncidentEntry").objects.filter(data__fact__in=CHANGED)
        changed = []
        for entry in entries.iterator(chunk_size=1_000):
            data = change(entry.data, entry.at)
            if data != entry.data:
                entry.data = data
                changed.append(entry)
            if len(changed) == 500:
                entries.bulk_update(changed, ["data"])
                changed.clear()
        entries.bulk_update(changed, ["data"])

    return migrate


class Migration(migrations.Migration):
    dependencies = [("incidents", "0003_incremental_recovery")]

    operations = [migrations.RunPython(rewrite(fact_now), rewrite(fact_before))]
