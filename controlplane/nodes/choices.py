"""States of nodes and of the requests for new ones."""

from __future__ import annotations

from controlplane.choices import Choices


class NodeState(Choices):
    REQUESTED = "requested", "Requested"
    JOINING = "joining", "Joining"
    ALIVE = "alive", "Alive"
    SUSPECT = "suspect", "Suspect"
    LOST = "lost", "Lost"
    DRAINING = "draining", "Draining"
    LEFT = "left", "Left"


NODE_USABLE = frozenset({NodeState.ALIVE})
"""New partitions may be placed here."""

NODE_PRESENT = frozenset({NodeState.ALIVE, NodeState.SUSPECT, NodeState.DRAINING})
"""Its partitions still count as running."""

NODE_AWAITED = frozenset({NodeState.REQUESTED, NodeState.JOINING})
"""A provider is to bring it, and it has not registered."""

NODE_GONE = frozenset({NodeState.LOST, NodeState.LEFT})


class NodeRequestState(Choices):
    PENDING = "pending", "Pending"
    STARTED = "started", "Started"
    JOINED = "joined", "Joined"
    FAILED = "failed", "Failed"


NODE_REQUEST_OPEN = frozenset({NodeRequestState.PENDING, NodeRequestState.STARTED})
