"""The states of nodes and of requests for them: which may follow which, and the only code that writes them.

A move compares and sets in one statement, so that of two processes that move the same row one wins and the
other learns that it did not. A move publishes no event: the caller puts the change into the event of its own
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from controlplane.nodes.choices import NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest

NODE_MOVES: Mapping[NodeState, frozenset[NodeState]] = {
    # Recovery wants it. It may register before the launcher has noted that it was started.
    NodeState.REQUESTED: frozenset({NodeState.JOINING, NodeState.ALIVE, NodeState.LEFT}),
    # Its provider has started it, and it has not registered.
    NodeState.JOINING: frozenset({NodeState.ALIVE, NodeState.LEFT}),
    NodeState.ALIVE: frozenset({NodeState.SUSPECT, NodeState.DRAINING, NodeState.LOST, NodeState.LEFT}),
    NodeState.SUSPECT: frozenset({NodeState.ALIVE, NodeState.DRAINING, NodeState.LOST, NodeState.LEFT}),
    NodeState.DRAINING: frozenset({NodeState.ALIVE, NodeState.LOST, NodeState.LEFT}),
    # Either may register again: a node behind a cut network, or one whose request was given up too early.
    NodeState.LOST: frozenset({NodeState.ALIVE}),
    NodeState.LEFT: frozenset({NodeState.ALIVE, NodeState.LOST}),
}

REQUEST_MOVES: Mapping[NodeRequestState, frozenset[NodeRequestState]] = {
    NodeRequestState.PENDING: frozenset(
        {NodeRequestState.STARTED, NodeRequestState.JOINED, NodeRequestState.FAILED}
    ),
    NodeRequestState.STARTED: frozenset({NodeRequestState.JOINED, NodeRequestState.FAILED}),
    # A replacement for a failed request is a new request, with a name of its own.
    NodeRequestState.JOINED: frozenset(),
    NodeRequestState.FAILED: frozenset(),
}

_MOMENTS = {NodeRequestState.STARTED: "started_at", NodeRequestState.JOINED: "joined_at"}


def node_move(node: Node, to: NodeState) -> bool:
    """Give `node` the state `to`; False, and nothing changes, where its present state does not allow it."""
    before = [state for state, allowed in NODE_MOVES.items() if to in allowed]
    if not Node.objects.filter(pk=node.pk, state__in=before).update(state=to):
        return False
    node.state = to
    return True


def nodes_move(nodes: Iterable[Node], to: NodeState) -> list[Node]:
    """As `node_move`, for many at once, inside the caller's transaction; those that have moved."""
    before = [state for state, allowed in NODE_MOVES.items() if to in allowed]
    known = {node.pk: node for node in nodes}
    rows = Node.objects.select_for_update().filter(pk__in=known, state__in=before).order_by("pk")
    moved = [known[pk] for pk in rows.values_list("pk", flat=True)]
    Node.objects.filter(pk__in=[node.pk for node in moved]).update(state=to)
    for node in moved:
        node.state = to
    return moved


def request_move(request: NodeRequest, to: NodeRequestState, *, at: datetime, error: str = "") -> bool:
    """Give `request` the state `to` with the moment of it and, where it failed, the reason (`error`); False,
    and nothing is changed, where its present state does not allow it."""
    before = [state for state, allowed in REQUEST_MOVES.items() if to in allowed]
    values: dict[str, object] = {"state": to, "error": error}
    if to in _MOMENTS:
        values[_MOMENTS[to]] = at
    if not NodeRequest.objects.filter(pk=request.pk, state__in=before).update(**values):
        return False
    for name, value in values.items():
        setattr(request, name, value)
    return True
