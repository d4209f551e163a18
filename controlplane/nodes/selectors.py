"""Reading nodes (read side)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count

from django.db.models import QuerySet

from controlplane.errors import Missing
from controlplane.nodes.choices import NODE_PRESENT, NodeState
from controlplane.nodes.models import Node, NodeRequest

_NUMBERED = re.compile(r"^node-(\d+)$")


def nodes_known() -> QuerySet[Node]:
    """All nodes but those that were forgotten."""
    return Node.objects.filter(forgotten_at=None)


def node_get(name: str, *, lock: bool = False) -> Node:
    """The node called `name`; raises `Missing`."""
    rows = nodes_known().select_for_update() if lock else nodes_known()
    node = rows.filter(name=name).first()
    if node is None:
        raise Missing(f"there is no node {name!r}")
    return node


def racks_for_new(racks: Iterable[str]) -> dict[str, str]:
    """For each of these racks, in which one to ask for a node that is to be like one of it: the same, but
    where all of it is being drained, the one with the fewest nodes that take partitions."""
    rows = Node.objects.filter(state__in=(NodeState.ALIVE, NodeState.SUSPECT, NodeState.DRAINING))
    states = [*rows.exclude(rack="").values_list("rack", "state")]
    serving = Counter(rack for rack, state in states if state != NodeState.DRAINING)
    other = min(serving, key=lambda rack: (serving[rack], rack), default="")
    drained = {rack for rack, _ in states} - serving.keys()
    return {rack: other if other and rack in drained else rack for rack in racks}


def rack_nodes(rack: str, *, lock: bool = False) -> list[Node]:
    """The nodes of a rack by name, but those that were forgotten; raises `Missing` where there are none."""
    rows = nodes_known().select_for_update() if lock else nodes_known()
    found = list(rows.filter(rack=rack).order_by("name")) if rack else []
    if not found:
        raise Missing(f"no node is in rack {rack!r}")
    return found


def node_name_next(taken: Iterable[str] = ()) -> str:
    """The lowest `node-N` above every one ever used: a replacement never inherits a name."""
    return next(node_names_fresh(taken))


def node_names_fresh(taken: Iterable[str] = ()) -> Iterator[str]:
    """`node_name_next`, and those after it: all names that were ever used are read once."""
    used = {*taken, *Node.objects.order_by().values_list("name", flat=True)}
    used |= set(NodeRequest.objects.order_by().values_list("node_name", flat=True))
    numbers = [int(match[1]) for name in used if (match := _NUMBERED.match(name))]
    return (f"node-{number}" for number in count(max(numbers, default=0) + 1))


def node_racks() -> dict[str, str]:
    """Node -> rack of the nodes that are there and take partitions; empty where the rack is not known."""
    rows = Node.objects.filter(state__in=NODE_PRESENT, standby=False)
    return dict(rows.values_list("name", "rack"))
