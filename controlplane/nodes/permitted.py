"""What a node permits in the state it is in, and why not the rest."""

from __future__ import annotations

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


def node_refusals(*, name: str, state: str) -> dict[str, str]:
    """Action to why it is refused now; an action that is not named is permitted."""
    found = {kind: node_refusal(kind, name=name, state=state) for kind in _PERMITTED}
    if not settings.RESURGE.fault_injection:
        found[OperationKind.NODE_FAIL] = NO_FAULTS
    return {kind.partition(".")[2]: why for kind, why in found.items() if why}
