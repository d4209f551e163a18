"""What sparklines begin with."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish
from controlplane.snapshot import recent
from controlplane.snapshot.recent import recent_figures
from tests.unit.controlplane.conftest import client_of

pytestmark = pytest.mark.django_db


def metrics(latency: float | None, rate: float | None, topology: str = "counts") -> int:
    changes: list[Any] = [
        {
            "entity": "query",
            "key": f"{topology}/O0[0]",
            "fields": {"latency": latency, "status": "available"},
        },
        {
            "entity": "topology",
            "key": topology,
            "fields": {"input_rate": rate, "spec": {"latency": "no number"}},
        },
        {"entity": "partition", "key": f"{topology}/O0[0]", "fields": {"cpu": 0.25}},
        {"entity": "query", "key": f"{topology}/gone", "fields": None},
    ]
    event = event_publish(kind=EventKind.TOPOLOGY_METRICS, changes=changes, topology=topology)
    return event.sequence


def test_nothing_was_measured_yet() -> None:
    found = recent_figures()
    assert (found.sequence, found.latencies, found.rates) == (0, {}, {})


def test_series_are_in_order_and_leave_out_what_is_not_measured() -> None:
    for latency, rate in ((0.25, 100.0), (None, 100.04), (0.123456, None)):
        newest = metrics(latency, rate)
    metrics(0.5, 7.0, "trending")
    event_publish(kind=EventKind.TOPOLOGY_UPDATED, changes=[], topology="counts")
    found = recent_figures()
    assert found.sequence == newest + 1
    assert found.latencies == {"counts/O0[0]": [0.25, 0.1235], "trending/O0[0]": [0.5]}
    assert found.rates == {"counts": [100.0, 100.0], "trending": [7.0]}


def test_series_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "EVENTS", 6)
    monkeypatch.setattr(recent, "POINTS", 4)
    for n in range(9):
        metrics(float(n), float(n))
    assert recent_figures().latencies == {"counts/O0[0]": [5.0, 6.0, 7.0, 8.0]}


def test_over_rest() -> None:
    metrics(0.25, 100.0)
    answer = client_of("viewer").get("/api/v1/snapshot/recent/")
    assert answer.json() == {
        "sequence": 1, "latencies": {"counts/O0[0]": [0.25]}, "rates": {"counts": [100.0]},
    }  # fmt: skip
