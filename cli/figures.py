"""What is shown of a topology depends on its health, which the server derives: figures of one that does not
run are a dash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def measured(topology: Mapping[str, Any]) -> bool:
    """Whether rates and latencies are measured now."""
    return judged(topology) and topology["health"]["state"] != "failed"


def judged(topology: Mapping[str, Any]) -> bool:
    """Whether its queries count as available or not: none has failed where nothing is to run."""
    return topology["health"]["limit"] is not None


def available(topology: Mapping[str, Any]) -> str:
    """`12/15`, for one whose queries are judged."""
    return f"{topology['health']['value']:.0f}/{topology['health']['limit']:.0f}"
