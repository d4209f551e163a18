"""What a node permits in the state it is in, and why not the rest."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from controlplane.events.choices import OperationKind
from controlplane.nodes.choices import NODE_GONE, NODE_PRESENT, NodeState

_DONE = {
    OperationKind.NODE_DRAIN: "drained",
    OperationKind.NODE_ACTIVATE: "activated",
    OperationKind.NODE_FAIL: "failed",
    OperationKind.NODE_FORGET: "forgotten",
}
_PERMITTED: dict[OperationKind, frozenset[str]] = {
    OperationKind.NODE_DRAIN: frozenset({NodeState.ALIVE, NodeState.SUSPECT}),
    OperationKind.NODE_ACTIVATE: frozenset({NodeState.DRAINING}),
    OperationKind.NODE_FAIL: frozenset({*NODE_PRESENT, NodeState.JOINING}),
    OperationKind.NODE_FORGET: frozenset(NODE_GONE),
}
NO_FAULTS = "fault injection is off here; start Resurge with RESURGE_FAULT_INJECTION=1 to use it"


def node_refusal(kind: OperationKind, *, name: str, state: str) -> str:
    """Why the node refuses this now; "" where it is permitted."""
    if state in _PERMITTED[kind]:
        return ""
    wanted = " or ".join(sorted(_PERMITTED[kind]))
    return f"node {name!r} is {state}; only a node that is {wanted} can be {_DONE[kind]}"


RACK_OF_NODES = {
    OperationKind.RACK_DRAIN: OperationKind.NODE_DRAIN,
    OperationKind.RACK_ACTIVATE: OperationKind.NODE_ACTIVATE,
}
"""What is done to each node of a rack that permits it."""


def rack_refusal(kind: OperationKind, *, rack: str, nodes: Mapping[str, str]) -> str:
    """Why the rack refuses this now, where no node of it permits it; "" otherwise. nodes: name -> state."""
    of_node = RACK_OF_NODES[kind]
    if any(state in _PERMITTED[of_node] for state in nodes.values()):
        return ""
    states = ", ".join(f"{name} is {state}" for name, state in nodes.items())
    wanted = " or ".join(sorted(_PERMITTED[of_node]))
    return f"no node of rack {rack!r} is {wanted}, so none can be {_DONE[of_node]}: {states}"


def node_refusals(*, name: str, state: str) -> dict[str, str]:
    """Action to why it is refused now; an action that is not named is permitted."""
    found = {kind: node_refusal(kind, name=name, state=state) for kind in _PERMITTED}
    if not settings.RESURGE.fault_injection:
        found[OperationKind.NODE_FAIL] = NO_FAULTS
    return {kind.partition(".")[2]: why for kind, why in found.items() if why}
