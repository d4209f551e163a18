"""A client that loads a snapshot and follows events, as the dashboard does."""

from __future__ import annotations

import copy
import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from controlplane.events.models import Event
from controlplane.snapshot.document import snapshot_end, snapshot_parts


class Follower:
    """Loads the snapshot now; `check` applies what was published since and compares with a fresh one."""

    def __init__(self) -> None:
        snapshot = plain(snapshot_read())
        self.sequence: int = snapshot["sequence"]
        self.entities: dict[str, dict[str, Any]] = snapshot["entities"]

    def follow(self) -> None:
        for event in Event.objects.filter(sequence__gt=self.sequence).order_by("sequence"):
            assert event.sequence == self.sequence + 1, "a gap in the sequence"
            self.sequence = event.sequence
            for change in plain(event.changes):
                rows = self.entities[change["entity"]]
                if change["fields"] is None:
                    rows.pop(change["key"], None)
                else:
                    rows[change["key"]] = {**rows.get(change["key"], {}), **change["fields"]}

    def check(self) -> None:
        self.follow()
        fresh = plain(snapshot_read())
        assert self.sequence == fresh["sequence"]
        for kind, rows in fresh["entities"].items():
            assert self.entities[kind] == rows, f"{kind} differs from a fresh snapshot"


def snapshot_read() -> dict[str, Any]:
    """The snapshot, decoded."""
    return dict(json.loads(b"".join((*snapshot_parts(), snapshot_end()))))


def plain(value: Any) -> Any:
    """The value after a round trip through JSON."""
    return json.loads(json.dumps(copy.deepcopy(value), cls=DjangoJSONEncoder))
