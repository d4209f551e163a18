"""More input than can be worked off, on real processes: a query is parked by itself and returns by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset
import pytest

from harness.stack import Stack
from tests.data import shared_data

RATE = 400
FROM, UNTIL, TIMES = 45, 60, 6.0
"""Seconds after the start in which so many times the rate arrives. By then the load is known."""
PAGE_SECONDS, TREND_SECONDS = 0.0001, 0.0006
"""For each tuple. Together with what a job takes by itself they fit the rate, but not six times the rate."""
SPEC: dict[str, Any] = {
    "name": "surging",
    "epoch_interval": 2.0,
    "operators": [
        {
            "name": "Source",
            "kind": "source",
            "parallelism": 1,
            "params": {"rate": RATE, "surges": [[FROM, UNTIL, TIMES]]},
        },
        *(
            {
                "name": name,
                "kind": "map",
                "deterministic": True,
                "inputs": [{"from": "Source"}],
                "params": {
                    "function": "tests.integration.slow_map.slow",
                    "arguments": {"seconds_per_row": seconds},
                },
                "output": True,
                "priority": priority,
            }
            for name, seconds, priority in (("Pages", PAGE_SECONDS, 9), ("Trends", TREND_SECONDS, 1))
        ),
    ],
}
MODULES = "spark_jobs.operators,tests.integration.slow_map"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    tweets = shared_data("tweets.parquet")
    with Stack(tmp_path, nodes=1, variables={"RESURGE_OPERATOR_MODULES": MODULES}) as made:
        path = made.home / "surging.json"
        path.write_bytes(msgspec.json.encode(SPEC))
        made.manage("deploy", str(path), "--input", str(tweets), "--rate", str(RATE))
        yield made


def query(stack: Stack, name: str) -> dict[str, Any]:
    rows = stack.rest.listing("topologies/surging/queries/")
    return next(row for row in rows if row["partition"] == f"{name}[0]")


def written(stack: Stack, name: str, epoch: int) -> pa.Table:
    """Everything that a query wrote up to this epoch, in a fixed order."""
    parts = pyarrow.dataset.dataset(
        *(stack.home / "outputs" / "surging").glob(f"deployed=*/{name}"),
        partitioning=pyarrow.dataset.partitioning(flavor="hive"),
        format="parquet",
    )
    found = parts.to_table(filter=pyarrow.dataset.field("epoch") <= epoch, columns=["epoch", "ts", "text"])
    return found.sort_by([("epoch", "ascending"), ("ts", "ascending"), ("text", "ascending")])


@pytest.mark.long
def test_the_least_valuable_query_is_parked_and_returns(stack: Stack) -> None:
    stack.wait_for(lambda: query(stack, "Trends")["available"], "both queries to be available", timeout=70)
    assert stack.incidents() == []
    stack.wait_for(
        lambda: query(stack, "Trends")["status"] == "parked", "the query worth least to stop", timeout=120
    )
    assert not query(stack, "Pages")["parked"]
    (incident,) = stack.incidents()
    assert incident["trigger"] == "overload"
    stack.wait_for(lambda: query(stack, "Pages")["available"], "the other to be available", timeout=60)
    at = query(stack, "Trends")["epoch"]
    stack.wait_for(lambda: not query(stack, "Trends")["parked"], "its return", timeout=120)
    stack.wait_for(lambda: query(stack, "Trends")["available"], "it to be available", timeout=120)
    stack.wait_for(lambda: stack.incidents()[-1]["state"] == "closed", "the incident to close", timeout=60)
    committed = stack.rest.get("topologies/surging/")["committed_epoch"]
    assert committed > at
    whole = written(stack, "Pages", committed)
    assert whole.num_rows > 2 * RATE * at
    assert written(stack, "Trends", committed).equals(whole)
    assert len(stack.incidents()) == 1
