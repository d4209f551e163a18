"""The figures of a topology: measured while it runs, and taken back when it does not."""

from __future__ import annotations

import math

from django.utils import timezone

from controlplane.topologies.choices import TopologyStatus
from controlplane.topologies.models import Topology, rack_exposure_unknown
from controlplane.topologies.rows import Rows, rows_reset
from controlplane.topologies.tentative import tentative_end

SMOOTHED_OVER = 5.0
"""Seconds. Epochs get uneven parts of a steady stream, so a single epoch's rate means little."""
USUAL_OVER = 60.0
"""Seconds of the mean that is the usual load."""

_NO_INPUT = frozenset(
    {
        TopologyStatus.PAUSED,
        TopologyStatus.COMPLETED,
        TopologyStatus.FAILED,
        TopologyStatus.STOPPED,
    }
)


def rate_smoothed(before: float, measured: float, seconds: float) -> float:
    """The exponential mean of a rate after `seconds` of being `measured`; the first counts whole."""
    if before <= 0:
        return measured
    return before + (1 - math.exp(-max(seconds, 0.0) / SMOOTHED_OVER)) * (measured - before)


def load_usual(before: float | None, measured: float, seconds: float) -> float:
    """The exponential mean of a load after `seconds` of being `measured`; the first counts whole."""
    if before is None:
        return measured
    return before + (1 - math.exp(-max(seconds, 0.0) / USUAL_OVER)) * (measured - before)


def figures_settle(topology: Topology, rows: Rows) -> None:
    """Take back what is only true of a topology that runs; to be called when its status was derived.

    A paused one reads nothing. One that has ended has no partition on a node, and one that was stopped
    has no results, latencies or errors that are of now. The caller saves the topology and the rows.
    """
    if topology.status not in _NO_INPUT:
        return
    topology.input_rate = 0.0
    topology.load = topology.overloaded_since = topology.catch_up = None
    topology.load_falls = False
    for partition in rows.partitions.values():
        partition.rows_in_rate = partition.rows_out_rate = 0.0
    if topology.status == TopologyStatus.PAUSED:
        return
    tentative_end(topology, rows, at=timezone.now())
    topology.lag = 0.0
    topology.slow_since = {}
    if topology.status == TopologyStatus.COMPLETED:
        for partition in rows.partitions.values():
            partition.node_id = None
    elif topology.status == TopologyStatus.STOPPED:
        topology.error = ""
        topology.keys = {}
        topology.rack_exposure = rack_exposure_unknown()
        rows_reset(rows, {})


SETTLED = (
    "error",
    "input_rate",
    "load",
    "usual_load",
    "load_falls",
    "lag",
    "catch_up",
    "overloaded_since",
    "slow_since",
    "rack_exposure",
    "keys",
)
"""Fields of a topology that `figures_settle` changes."""
