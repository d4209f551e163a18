"""States of nodes and of the requests for new ones."""

from __future__ import annotations

from controlplane.choices import ColouredChoices


class NodeState(ColouredChoices):
    REQUESTED = "requested", "grey", "Requested"
    JOINING = "joining", "blue", "Joining"
    ALIVE = "alive", "green", "Alive"
    SUSPECT = "suspect", "yellow", "Suspect"
    LOST = "lost", "red", "Lost"
    DRAINING = "draining", "orange", "Draining"
    LEFT = "left", "grey", "Left"


NODE_USABLE = frozenset({NodeState.ALIVE})
"""New partitions may be placed here."""

NODE_PRESENT = frozenset({NodeState.ALIVE, NodeState.SUSPECT, NodeState.DRAINING})
"""Its partitions still count as running."""

NODE_AWAITED = frozenset({NodeState.REQUESTED, NodeState.JOINING})
"""A provider is to bring it, and it has not registered."""

NODE_GONE = frozenset({NodeState.LOST, NodeState.LEFT})


class NodeRequestState(ColouredChoices):
    PENDING = "pending", "grey", "Pending"
    STARTED = "started", "blue", "Started"
    JOINED = "joined", "green", "Joined"
    FAILED = "failed", "red", "Failed"


NODE_REQUEST_OPEN = frozenset({NodeRequestState.PENDING, NodeRequestState.STARTED})
