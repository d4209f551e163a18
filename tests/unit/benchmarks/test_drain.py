"""What the benchmark of drains reads off events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.drain import Drained, gaps, node_to_drain, report_of, unavailable
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue


def topology() -> Topology:
    source = {"kind": "source", "params": {"rate": 10}}
    query = {"kind": "filter", "output": True, "params": {"column": "text", "comparison": "is_not_null"}}
    operators = [
        *({"name": f"S{n}", **source} for n in range(2)),
        *(
            {"name": f"O{n}", "inputs": [{"from": f"S{n}", "partitioning": "one_to_one"}], **query}
            for n in range(2)
        ),
    ]
    return load_topology({"name": "two", "operators": operators}, catalogue)


def event(at: float, query: str, **fields: Any) -> dict[str, Any]:
    change = {"entity": "query", "key": f"two/{query}", "fields": fields}
    return {"at": datetime.fromtimestamp(at, UTC).isoformat(), "changes": [change]}


def test_the_node_is_one_that_not_every_query_needs_and_another_than_the_last() -> None:
    homes = {"n1": ["S0[0]"], "n2": ["O1[0]"], "n3": ["S0[0]", "S1[0]"], "n4": []}
    assert node_to_drain(topology(), homes, "") == ("n1", {"O0[0]"})
    assert node_to_drain(topology(), homes, "n1") == ("n2", {"O1[0]"})
    with pytest.raises(ValueError, match="every query needs every node, or none"):
        node_to_drain(topology(), {"n3": homes["n3"], "n4": []}, "")


def test_gaps_reach_from_one_advance_to_the_next_and_to_the_end() -> None:
    told = [
        event(9.0, "O0[0]", epoch=4),
        *(event(at, "O0[0]", epoch=5) for at in (11.0, 14.0)),
        event(15.0, "O0[0]", epoch=6),
    ]
    assert gaps(told, ["O0[0]"], 10.0, 20.0) == {"O0[0]": 5.0}
    assert gaps(told, ["O1[0]"], 10.0, 20.0) == {"O1[0]": 10.0}, "it never advanced"


def test_a_drain_that_moved_nothing_or_took_a_query_down_does_not_pass() -> None:
    told = [
        *(
            event(at, query, latency=0.5, epoch=int(at))
            for at in range(80, 120)
            for query in ("O0[0]", "O1[0]")
        ),
        event(105.0, "O1[0]", available=False),
    ]
    assert unavailable(told, 100.0, 110.0) == {"O1[0]"}
    assert unavailable(told, 100.0, 105.0) == set()
    drain = Drained("n1", {"O0[0]"}, 100.0, 110.0, 0)
    failed = [one.name for one in report_of(topology(), [drain], told, 7).criteria if not one.holds]
    assert failed == ["partitions that each drain moved", "queries that were unavailable"]
    without = [one.name for one in report_of(topology(), [drain], [], 0).criteria if not one.holds]
    assert len(without) == 4, "nothing that was measured is no success"
