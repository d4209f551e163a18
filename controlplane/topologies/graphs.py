"""Graphs of stored specifications, parsed once per version."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from django.conf import settings

from domain.topology import Topology as TopologyGraph
from domain.topology import TopologySpec, spec_decoder


def graph_of(spec: dict[str, Any]) -> TopologyGraph:
    """The graph of a specification that was validated when it was accepted."""
    return _graph(json.dumps(spec, sort_keys=True))


@lru_cache(maxsize=2_048)
def graph_of_text(text: str) -> TopologyGraph:
    """The same graph, of the specification as the database keeps it: neither is the text read, nor is it
    written anew to find the graph."""
    return graph_of(json.loads(text))


@lru_cache(maxsize=2_048)
def _graph(text: str) -> TopologyGraph:
    return TopologyGraph(spec_decoder.decode(text))


def checkpoint_interval_of(spec: TopologySpec) -> float:
    """Seconds from one checkpoint to the next: its own, or the installation's."""
    every: float = spec.checkpoint_interval or settings.RESURGE.checkpoint_interval
    return every
