"""What can be said of a topology in its state: figures of one that does not run are a dash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEASURED = frozenset({"deploying", "running", "degraded", "recovering", "stopping"})
"""States of a topology in which rates and latencies are measured."""


def measured(topology: Mapping[str, Any]) -> bool:
    return topology["status"] in MEASURED


def judged(topology: Mapping[str, Any]) -> bool:
    """Whether its queries count as available or not: none has failed where nothing is to run."""
    return measured(topology) or topology["status"] == "failed"
