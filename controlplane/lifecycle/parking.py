"""Asking that queries be parked, or return; the recovery worker carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from controlplane.errors import Missing
from controlplane.events.choices import OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import Asked, Permission, operation_request
from controlplane.events.services import writing
from controlplane.incidents.parking import parkable, unparkable
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.selectors import topology_get
from domain.planning import natural_key


@writing
def topology_park(
    *,
    name: str,
    queries: Sequence[str],
    **asked: Unpack[Asked],
) -> Operation:
    """Stop these queries, so that others have their room, until they are unparked. Raises `Missing` or
    `Conflict`."""
    return _request(OperationKind.TOPOLOGY_PARK, parkable, name, queries, **asked)


@writing
def topology_unpark(
    *,
    name: str,
    queries: Sequence[str],
    **asked: Unpack[Asked],
) -> Operation:
    """Let these queries, all that are parked if none is named, return as soon as there is room. Raises
    `Missing` or `Conflict`."""
    return _request(OperationKind.TOPOLOGY_UNPARK, unparkable, name, queries, **asked)


def _request(
    kind: OperationKind,
    check: Callable[[Topology, Sequence[str]], None],
    name: str,
    queries: Sequence[str],
    **asked: Unpack[Asked],
) -> Operation:
    topology = topology_get(name, lock=True)
    named = sorted(set(queries), key=natural_key)

    def permit() -> Permission:
        if unknown := set(named).difference(graph_of(topology.spec).queries):
            raise Missing(f"topology {name!r} has no query {', '.join(sorted(unknown, key=natural_key))}")
        check(topology, named)
        return Permission(before={}, parameters={"queries": named})

    return operation_request(
        kind=kind,
        target=name,
        permit=permit,
        **asked,
    )
