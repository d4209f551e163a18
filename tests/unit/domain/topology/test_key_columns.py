"""Which column has the key of an operator's state."""

from __future__ import annotations

from typing import Any

import pytest

from domain.topology import load_topology
from domain.topology.key_columns import key_columns
from spark_jobs.operators.catalogue import catalogue


def columns(kind: str, params: dict[str, Any], *, parallelism: int, **stream: Any) -> dict[str, str]:
    topology = load_topology(
        {
            "name": "t",
            "guarantee": "bounded",
            "operators": [
                {
                    "name": "S",
                    "kind": "source",
                    "parallelism": 2,
                    "params": {"reader": "traffic", "stream": "locations"},
                },
                {
                    "name": "O",
                    "kind": kind,
                    "params": params,
                    "parallelism": parallelism,
                    "inputs": [{"from": "S", "partitioning": "full", **stream}],
                    "output": True,
                },
            ],
        },
        catalogue,
    )
    return key_columns(topology, "O", catalogue)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_column_by_which_rows_are_spread(parallelism: int) -> None:
    assert columns("tumbling_window", {"size_s": 5}, parallelism=parallelism) == {"S": "key"}


def test_a_column_that_the_state_lacks_is_no_key_of_it() -> None:
    assert columns("tumbling_window", {"size_s": 5}, parallelism=3, key="user_id") == {}


def test_without_partitions_the_state_says_its_column() -> None:
    """All rows are in one partition, whatever they are spread by."""
    assert columns("tumbling_window", {"size_s": 5}, parallelism=1, key="user") == {"S": "key"}
    assert columns("distinct", {"columns": ["user", "page"]}, parallelism=1, key="page") == {"S": "page"}


@pytest.mark.parametrize(
    ("kind", "params"), [("top_k", {}), ("filter", {"column": "a", "comparison": "==", "value": 1})]
)
def test_a_state_without_keys_is_one(kind: str, params: dict[str, Any]) -> None:
    assert columns(kind, params, parallelism=1) == {}
