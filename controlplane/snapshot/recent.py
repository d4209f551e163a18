"""What a page that has just been opened draws sparklines of: a few figures of the newest metrics events."""

from __future__ import annotations

from typing import Final

import msgspec
from django.db.models import TextField
from django.db.models.functions import Cast

from controlplane.events.choices import EventKind
from controlplane.events.models import Event

EVENTS: Final = 150
POINTS: Final = 120
"""Values of each series, the newest last."""


class Recent(msgspec.Struct, kw_only=True):
    """sequence: that of the newest event in it. latencies: `topology/query` -> seconds; rates: topology ->
    tuples of input per second."""

    sequence: int = 0
    latencies: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}


class _Fields(msgspec.Struct):
    latency: float | None = None
    input_rate: float | None = None


class _Change(msgspec.Struct):
    entity: str
    key: str
    fields: _Fields | None = None


_decoder = msgspec.json.Decoder(list[_Change])


def recent_figures() -> Recent:
    """From the newest `EVENTS` events; the rest of these, far more, is not even decoded."""
    metrics = Event.objects.filter(kind=EventKind.TOPOLOGY_METRICS).order_by("-sequence")
    rows = list(metrics.values_list("sequence", Cast("changes", TextField()))[:EVENTS])
    found = Recent(sequence=rows[0][0] if rows else 0)
    for _, text in reversed(rows):
        for change in _decoder.decode(text):
            if change.fields is None:
                continue
            if change.entity == "query" and change.fields.latency is not None:
                found.latencies.setdefault(change.key, []).append(round(change.fields.latency, 4))
            elif change.entity == "topology" and change.fields.input_rate is not None:
                found.rates.setdefault(change.key, []).append(round(change.fields.input_rate, 1))
    for series in (found.latencies, found.rates):
        for key, values in series.items():
            series[key] = values[-POINTS:]
    return found
