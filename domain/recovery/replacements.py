"""Which nodes to ask of the provider: one for each lost node, more where those fail or do not suffice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from domain.planning import Arrival, DelayDistribution, expected_arrivals, natural_key
from domain.recovery.incident import Deployment, NodeView, Request, TopologyCase

JOIN_LIMIT = 120.0  # seconds a started replacement may take to register before another is asked for
FRUITLESS = 10  # further nodes on top of one for every partition, before no more are asked for
NO_MORE = (
    "Several more nodes have not helped, so no further one is asked for: add a larger node, raise the bound "
    "of utilisation, or undeploy what matters least."
)
STANDARD_CAPACITY = 100.0  # CPU percent of a replacement for a node that is not known


def overdue(requests: Collection[Request], now: float) -> list[Request]:
    """Started replacements that should have registered by now."""
    return [
        request
        for request in requests
        if request.state == "started"
        and request.started_at is not None
        and now - request.started_at > JOIN_LIMIT
    ]


def missing(losses: Counter[str], requests: Collection[Request]) -> list[tuple[str, int]]:
    """(lost node, number of the attempt) of what is to be asked for: a request that failed, or whose node was
    lost too, does not count."""
    made = Counter(request.lost_node for request in requests)
    good = Counter(request.lost_node for request in requests if request.state != "failed")
    short = [node for node, times in losses.items() if times > good[node]]
    return [
        (node, made[node] + 1 + further)
        for node in sorted(short, key=natural_key)
        for further in range(losses[node] - good[node])
    ]


def one_more(
    case: TopologyCase,
    *,
    deployment: Deployment,
    nodes: Mapping[str, NodeView],
    requests: Collection[Request],
    losses: Counter[str],
    costs: Mapping[str, float],
    load: float,
    max_utilisation: float,
) -> tuple[str, int] | None:
    """(node to be like, number of the attempt) where everything asked for is here and does not suffice.
    None if many of them have not helped. costs: of the partitions of this topology; load: what every node has
    besides its partitions; both in CPU percent."""
    homes = {home for p in case.failed if (home := deployment.home(p))}
    # As large as the largest of their homes: no number of smaller nodes need ever take what is left.
    # A redeployment may have put partitions where they would not fit by what they count for.
    needed = max((costs.get(p, 0.0) for p in case.failed), default=0.0)
    if all(capacity_of(nodes, home) * max_utilisation - load < needed for home in homes):
        homes |= nodes.keys()
    node = min(homes, key=lambda name: (-capacity_of(nodes, name), natural_key(name)), default="capacity")
    like_it = [request for request in requests if request.lost_node == node]
    joined = sum(request.state == "joined" for request in like_it)
    if joined > losses[node] + len(case.failed) + FRUITLESS:
        return None
    return node, 1 + len(like_it)


def capacity_of(nodes: Mapping[str, NodeView], name: str) -> float:
    return nodes[name].capacity if name in nodes else STANDARD_CAPACITY


def expected(requests: Collection[Request]) -> list[Request]:
    """Replacements that have neither come nor failed."""
    return [request for request in requests if request.state in ("pending", "started")]


def arrivals(
    requests: Collection[Request],
    *,
    delay: DelayDistribution | None,
    now: float,
    load: float,
    max_utilisation: float,
) -> tuple[Arrival, ...]:
    """When they are expected, by the provider's distribution of delays and the time each has waited. load:
    what every node has besides its partitions, in CPU percent."""
    awaited = expected(requests)
    if delay is None or not awaited:
        return ()
    return expected_arrivals(
        delay,
        waited=[max(0.0, now - (now if r.requested_at is None else r.requested_at)) for r in awaited],
        capacity=[max(0.0, request.capacity * max_utilisation - load) for request in awaited],
    )
