"""The topologies of the fleet: 1,000 partitions and 100 queries each, in few operators or in many."""

from __future__ import annotations

import random
from typing import Any

PARTITIONS, QUERIES = 1_000, 100


def spec_wide(name: str) -> dict[str, Any]:
    """56 operators: 4 sources, 4 parsers and 28 windows of 25 partitions, 20 outputs of 5."""
    operators = [*_inputs(4, 25), *(_window(f"W{i}", f"Parser{i % 4}", 25) for i in range(28))]
    return _spec(name, "Hashtags by region, in windows", operators, windows=28, outputs=20, parallelism=5)


def spec_flat(name: str) -> dict[str, Any]:
    """1,000 operators of one partition: the graph with the most boxes."""
    operators = [*_inputs(20, 1), *(_window(f"W{i}", f"Parser{i % 20}", 1) for i in range(860))]
    return _spec(name, "One partition for each operator", operators, windows=860, outputs=100, parallelism=1)


def spec_small(name: str) -> dict[str, Any]:
    """12 operators, 48 partitions: 2 sources, 2 parsers and 4 windows of 5, 4 outputs of 2."""
    operators = [*_inputs(2, 5), *(_window(f"W{i}", f"Parser{i % 2}", 5) for i in range(4))]
    return _spec(name, "One of hundreds", operators, windows=4, outputs=4, parallelism=2)


def _spec(
    name: str, description: str, operators: list[Any], *, windows: int, outputs: int, parallelism: int
) -> dict[str, Any]:
    rng = random.Random(name)
    known = [f"W{i}" for i in range(windows)]
    for i in range(outputs):
        operators.append(
            {
                "name": f"O{i}",
                "kind": "latest",
                "parallelism": parallelism,
                "output": True,
                "priority": 1 + i % 10,
                "inputs": [{"from": window} for window in rng.sample(known, 1 + i % 3)],
            }
        )
    return {"name": name, "description": description, "operators": operators}


def _inputs(count: int, parallelism: int) -> list[dict[str, Any]]:
    """Sources, and behind each of them a parser."""
    operators = []
    for i in range(count):
        operators.append(
            {
                "name": f"Source{i}",
                "kind": "source",
                "parallelism": parallelism,
                "params": {"rate": 1_000},
            }
        )
        operators.append(
            {
                "name": f"Parser{i}",
                "kind": "flat_map_regex",
                "parallelism": parallelism,
                "inputs": [{"from": f"Source{i}", "partitioning": "one_to_one"}],
                "params": {"pattern": r"#(\w+)"},
            }
        )
    return operators


def _window(name: str, parser: str, parallelism: int) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "sliding_window",
        "parallelism": parallelism,
        "inputs": [{"from": parser}],
        "params": {"size_s": 10, "slide_s": 5},
    }
