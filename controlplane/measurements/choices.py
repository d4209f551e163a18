"""Of what measurements are kept, and which figures these are."""

from __future__ import annotations

from controlplane.choices import Choices


class MeasuredKind(Choices):
    TOPOLOGY = "topology", "Topology"
    QUERY = "query", "Query"
    OPERATOR = "operator", "Operator"
    NODE = "node", "Node"


UNITS: dict[MeasuredKind, dict[str, str]] = {
    MeasuredKind.TOPOLOGY: {
        "input_rate": "tuples/s",
        "load": "share of the time that it works",
        "lag": "s",
        "available": "queries",
        "total": "queries",
        "weighted": "share of the total priority, 0 to 1",
    },
    MeasuredKind.QUERY: {"latency": "s", "relative_latency": "multiple of the usual latency"},
    MeasuredKind.OPERATOR: {
        "rows_in_rate": "rows/s",
        "rows_out_rate": "rows/s",
        "cpu": "cores",
        "state_bytes": "bytes",
    },
    MeasuredKind.NODE: {
        "cpu_percent": "% of one core",
        "predicted_percent": "% of one core",
        "throttled": "share of the quota's periods, 0 to 1",
    },
}
"""Kind -> figure -> unit. An operator's figures are sums over its partitions."""
