"""What is kept of topologies, queries, operators and nodes over time, and how it is thinned and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.events.models import Event
from controlplane.measurements.buckets import LEVELS
from controlplane.measurements.measuring import LATEST, measurements_take
from controlplane.measurements.models import Measurement
from controlplane.nodes.models import Node, NodeSample
from controlplane.topologies.models import Partition, Topology
from tests.unit.controlplane.conftest import client_of

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def told(at: datetime, *changes: dict[str, Any]) -> None:
    number = Event.objects.count() + 1_000
    Event.objects.create(sequence=number, at=at, kind="topology.metrics", topology="counts", changes=changes)


def rate_told(at: datetime, rate: float) -> None:
    told(at, {"entity": "topology", "key": "counts", "fields": {"input_rate": rate, "lag": 0.5}})


def kept(**which: Any) -> list[Measurement]:
    return list(Measurement.objects.filter(**which).order_by("at"))


def test_values_of_ten_seconds_are_one_figure(topology: Topology) -> None:
    for second, rate in enumerate((100.0, 300.0, 200.0)):
        rate_told(NOW + timedelta(seconds=second), rate)
    rate_told(NOW + timedelta(seconds=10), 900.0)
    assert measurements_take(now=NOW + timedelta(seconds=12)) == 1
    (row,) = kept(kind="topology")
    assert (row.at, row.seconds) == (NOW, 10)
    assert row.figures["input_rate"] == [3, 200.0, 100.0, 300.0]
    assert row.figures["lag"] == [3, 0.5, 0.5, 0.5]
    assert "load" not in row.figures  # nothing told it


def test_a_piece_is_stored_once_and_after_its_end(topology: Topology) -> None:
    rate_told(NOW, 100.0)
    assert measurements_take(now=NOW + timedelta(seconds=10)) == 0  # an event of its end may still come
    assert measurements_take(now=NOW + timedelta(seconds=11)) == 1
    rate_told(NOW + timedelta(seconds=5), 500.0)
    for second in (11, 15, 19):
        measurements_take(now=NOW + timedelta(seconds=second))
    assert [row.figures["input_rate"][0] for row in kept(seconds=10)] == [1]


def test_queries_samples_operators_and_nodes(topology: Topology) -> None:
    Topology.objects.update(status="running")
    first = Partition.objects.filter(topology=topology).order_by("pk")[0]
    Partition.objects.filter(operator=first.operator).update(
        rows_in_rate=10.0, rows_out_rate=4.0, cpu=0.25, state_bytes=1_000
    )
    width = Partition.objects.filter(operator=first.operator).count()
    told(
        NOW,
        {"entity": "query", "key": "counts/Out[0]", "fields": {"latency": 1.5, "relative_latency": None}},
        {"entity": "query", "key": "gone/Out[0]", "fields": {"latency": 9.0}},
        {"entity": "sample", "key": "x", "fields": {"topology": "counts", "available": 2, "total": 3,
                                                    "weighted": 0.5}},
        {"entity": "node", "key": "node-1"},
        {"entity": "query", "key": "counts/Out[0]", "fields": {"available": True, "status": "running"}},
    )  # fmt: skip
    node = Node.objects.get(name="node-2")
    NodeSample.objects.create(node=node, at=NOW + timedelta(seconds=3), cpu_percent=40.0, throttled=0.1)
    measurements_take(now=NOW + timedelta(seconds=12))
    (query,) = kept(kind="query")
    assert (query.part, query.figures) == ("Out[0]", {"latency": [1, 1.5, 1.5, 1.5]})
    (whole,) = kept(kind="topology")
    assert whole.figures["available"] == [1, 2.0, 2.0, 2.0]
    (of_node,) = kept(kind="node")
    assert (of_node.node, of_node.topology) == (node, None)
    assert set(of_node.figures) == {"cpu_percent", "throttled"}
    operator = next(row for row in kept(kind="operator") if row.part == first.operator)
    assert operator.figures["rows_in_rate"][1] == 10.0 * width
    assert operator.figures["state_bytes"][1] == 1_000 * width


def test_short_pieces_become_long_ones_and_go(topology: Topology) -> None:
    seconds = 3 * 3_600
    for second in range(0, seconds, 10):
        Measurement.objects.create(
            kind="topology", topology=topology, seconds=10, at=NOW + timedelta(seconds=second),
            figures={"lag": [1, second, second, second]},
        )  # fmt: skip
    end = NOW + timedelta(seconds=seconds + 1)
    measurements_take(now=end)
    minutes, tens = kept(seconds=60), kept(seconds=600)
    assert (len(minutes), len(tens)) == (180, 18)
    assert minutes[1].figures["lag"] == [6, 85.0, 60.0, 110.0]
    assert tens[-1].figures["lag"] == [60, seconds - 305.0, seconds - 600.0, seconds - 10.0]
    assert kept(seconds=10)[0].at >= end - timedelta(seconds=LEVELS[0].age or 0)
    before = Measurement.objects.count()
    measurements_take(now=end)
    assert Measurement.objects.count() == before


def test_a_longer_absence_is_a_gap(topology: Topology) -> None:
    rate_told(NOW, 100.0)
    later = NOW + LATEST + timedelta(seconds=61)
    rate_told(later - timedelta(seconds=20), 200.0)
    measurements_take(now=later)
    assert [row.figures["input_rate"][1] for row in kept(seconds=10)] == [200.0]


def test_they_go_with_their_topology_and_node(topology: Topology) -> None:
    Measurement.objects.create(kind="topology", topology=topology, seconds=10, at=NOW, figures={})
    node = Node.objects.get(name="node-2")
    Measurement.objects.create(kind="node", node=node, seconds=10, at=NOW, figures={})
    topology.delete()
    node.delete()
    assert not Measurement.objects.exists()


@pytest.fixture
def viewer(db: None) -> APIClient:
    return client_of("viewer")


def test_rest_shows_the_figures(topology: Topology, viewer: APIClient) -> None:
    for second in (0, 600, 1_800):
        Measurement.objects.create(
            kind="operator", topology=topology, part="Parser", seconds=600,
            at=NOW + timedelta(seconds=second),
            figures={"cpu": [2, 0.5, 0.25, 0.75]},
        )  # fmt: skip
    operator = topology.spec["operators"][1]["name"]
    Measurement.objects.update(part=operator)
    path = f"/api/v1/topologies/counts/operators/{operator}/measurements/"
    answer = viewer.get(path, {"since": "2026-03-01T12:00:00Z", "until": "2026-03-01T12:30:00Z"})
    assert answer.status_code == 200
    body = answer.json()
    assert body["seconds"] == 600
    assert body["at"] == ["2026-03-01T12:00:00Z", "2026-03-01T12:10:00Z"]
    assert body["figures"]["cpu"] == {
        "unit": "cores", "mean": [0.5, 0.5], "low": [0.25, 0.25], "high": [0.75, 0.75]
    }  # fmt: skip
    assert body["figures"]["state_bytes"]["mean"] == [None, None]


def test_a_year_is_shown_in_no_more_points_than_a_page_draws(topology: Topology, viewer: APIClient) -> None:
    """400 days are 57,600 buckets of 10 minutes: 29 each are merged."""
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    Measurement.objects.bulk_create(
        Measurement(
            kind="topology", topology=topology, seconds=600, at=begin + timedelta(seconds=600 * bucket),
            figures={"lag": [1, bucket, bucket, bucket]},
        )
        for bucket in range(600)
    )  # fmt: skip
    until = begin + timedelta(days=400)
    asked = {"since": begin.isoformat(), "until": until.isoformat()}
    body = viewer.get("/api/v1/topologies/counts/measurements/", asked).json()
    assert body["seconds"] == 29 * 600
    lag = body["figures"]["lag"]
    assert 20 <= len(body["at"]) == len(lag["mean"]) <= 22
    assert min(lag["low"]) == 0
    assert max(lag["high"]) == 599


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("topologies/none/measurements/", "there is no topology 'none'"),
        ("topologies/counts/queries/None[0]/measurements/", "has no query 'None[0]'"),
        ("topologies/counts/operators/None/measurements/", "has no operator 'None'"),
        ("nodes/none/measurements/", "there is no node 'none'"),
        ("nodes/node-1/measurements/?since=yesterday", "since"),
        (
            "nodes/node-1/measurements/?since=2026-03-01T12:00:00Z&until=2026-03-01T12:00:00Z",
            "before the end",
        ),
        ("nodes/node-1/measurements/?since=1999-03-01T12:00:00Z", "400 days"),
        ("nodes/node-1/measurements/?from=1", "from"),
    ],
)
def test_rest_says_what_is_wrong(topology: Topology, viewer: APIClient, path: str, words: str) -> None:
    answer = viewer.get(f"/api/v1/{path}")
    assert answer.status_code in (400, 404)
    assert words in answer.content.decode().replace('\\"', '"')


def test_a_node_and_a_query_without_figures(topology: Topology, viewer: APIClient) -> None:
    query = topology.queries.select_related("partition").first()
    assert query is not None
    for path in ("nodes/node-1", f"topologies/counts/queries/{query.partition.label}", "topologies/counts"):
        body = viewer.get(f"/api/v1/{path}/measurements/").json()
        assert body["at"] == []
        assert all(line["mean"] == [] for line in body["figures"].values())


def test_a_clock_that_was_ahead_and_is_put_back_leaves_no_gap(topology: Topology) -> None:
    for at, rate in ((NOW + timedelta(days=1), 900.0), (NOW, 100.0)):
        rate_told(at, rate)
        measurements_take(now=at + timedelta(seconds=12))
        measurements_take(now=at + timedelta(seconds=62))
    for seconds in (10, 60):
        rates = [row.figures["input_rate"][1] for row in kept(seconds=seconds, kind="topology")]
        assert rates == [100.0, 900.0]
