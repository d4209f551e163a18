"""Which silence covers an alert. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """rule, topology: names; None for all."""

    key: int
    rule: str | None
    topology: str | None
    until: datetime
    ended: bool = False

    def covers(self, *, rule: str, topology: str, at: datetime) -> bool:
        return (
            not self.ended
            and at < self.until
            and self.rule in (None, rule)
            and self.topology in (None, topology)
        )


def silence_of(silences: Iterable[Silence], *, rule: str, topology: str, at: datetime) -> int | None:
    """The silence that covers an alert for longest; None if there is none."""
    covering = [one for one in silences if one.covers(rule=rule, topology=topology, at=at)]
    return max(covering, key=lambda one: (one.until, one.key)).key if covering else None
