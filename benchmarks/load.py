"""The load of nodes with a quota, and the rate of input at which it is the wanted one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.node_usage import NodeUsage
from benchmarks.stack import BenchmarkStack

IDLE = 10.0
"""Points of load that are taken to be there without any tuple, as long as one rate was measured."""


def corrected(tried: Sequence[tuple[int, float]], level: float) -> int:
    """The next rate to try, by a line through the last two that were tried."""
    rate, load = tried[-1]
    earlier, low = tried[-2] if len(tried) > 1 else (0, min(IDLE, load / 2))
    slope = (load - low) / (rate - earlier) if rate != earlier else 0.0
    wanted = rate + (level - load) / slope if slope > 0 else rate * level / load
    return round(min(max(wanted, rate / 5), rate * 5))


def load_of(stack: BenchmarkStack, usage: NodeUsage, seconds: float, *, capacity: float) -> float:
    """Mean load of the nodes over some seconds, in percent of their quota. capacity: percent of a core."""
    nodes = sorted(stack.nodes("alive"))
    before, began = [usage.seconds(node) for node in nodes], time.monotonic()
    time.sleep(seconds)
    taken = sum(usage.seconds(node) for node in nodes) - sum(before)
    return 1e4 * taken / (time.monotonic() - began) / (capacity * len(nodes))
