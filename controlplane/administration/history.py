"""Audit entries as lines of a history: each field's value before and after."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.events.models import AuditEntry

LONGEST = 300
"""Characters of a value that are shown; specifications are longer, but have their own versions."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Step:
    """One audit entry with its fields side by side."""

    at: datetime
    actor: str
    channel: str
    action: str
    reason: str
    changes: tuple[FieldChange, ...]


def steps_of(entries: Iterable[AuditEntry]) -> list[Step]:
    return [
        Step(
            at=entry.at,
            actor=entry.actor,
            channel=entry.channel,
            action=entry.action,
            reason=entry.reason,
            changes=tuple(_changes(entry.before or {}, entry.after or {})),
        )
        for entry in entries
    ]


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterable[FieldChange]:
    for field in {**before, **after}:
        yield FieldChange(
            field=field,
            before=_text(before[field]) if field in before else "",
            after=_text(after[field]) if field in after else "",
        )


def _text(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
