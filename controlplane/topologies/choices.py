"""States of topologies, partitions and queries."""

from __future__ import annotations

from controlplane.choices import Choices
from domain.planning import PLANNERS
from domain.replication import REPLICATION_PLANNERS


class TopologyStatus(Choices):
    DRAFT = "draft", "Draft"
    DEPLOYING = "deploying", "Deploying"
    RUNNING = "running", "Running"
    DEGRADED = "degraded", "Degraded"
    RECOVERING = "recovering", "Recovering"
    PAUSED = "paused", "Paused"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    STOPPING = "stopping", "Stopping"
    STOPPED = "stopped", "Stopped"


class Outputs(Choices):
    """What becomes of the outputs of a topology that is deleted."""

    KEEP = "keep", "Kept under another name"
    REMOVE = "remove", "Removed"


TOPOLOGY_AT_REST = frozenset(
    {
        TopologyStatus.DRAFT,
        TopologyStatus.COMPLETED,
        TopologyStatus.FAILED,
        TopologyStatus.STOPPED,
    }
)
"""No driver runs: the topology may be edited, deployed or deleted."""

TOPOLOGY_LIVE = frozenset(
    {
        TopologyStatus.DEPLOYING,
        TopologyStatus.RUNNING,
        TopologyStatus.DEGRADED,
        TopologyStatus.RECOVERING,
        TopologyStatus.PAUSED,
    }
)
"""A driver runs or is about to; these are what the fleet page counts as deployed."""


class Desired(Choices):
    RUNNING = "running", "Running"
    STOPPED = "stopped", "Stopped"


class RecoveryMethod(Choices):
    BLOCKING = "blocking", "Blocking"
    INCREMENTAL = "incremental", "Incremental"
    MOVE = "move", "Move"


class MethodPolicy(Choices):
    AUTO = "auto", "By the failure"
    BLOCKING = "blocking", "Blocking"
    INCREMENTAL = "incremental", "Incremental"


class RollbackPolicy(Choices):
    ANCESTORS = "ancestors", "Only what failed replays"
    GLOBAL = "global", "Everything goes back"


class ApprovalPolicy(Choices):
    AUTOMATIC = "automatic", "Automatic"
    APPROVE = "approve", "An operator confirms each plan"


class RebalancingPolicy(Choices):
    AUTOMATIC = "automatic", "By itself"
    MANUAL = "manual", "When an operator asks"


class OverloadPolicy(Choices):
    AUTOMATIC = "automatic", "The least valuable queries are parked"
    MANUAL = "manual", "When an operator asks"


class SlowNodesPolicy(Choices):
    AUTOMATIC = "automatic", "They are drained"
    MANUAL = "manual", "When an operator asks"


PLANNER_CHOICES = [(name, name.replace("_", " ").capitalize()) for name in sorted(PLANNERS)]
"""Who chooses what returns first."""

REPLICATION_PLANNER_CHOICES = [(name, name.replace("_", " ").capitalize()) for name in REPLICATION_PLANNERS]
"""Who chooses what is worth a replica."""


class PartitionState(Choices):
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    STALLED = "stalled", "Stalled"
    FAILED = "failed", "Failed"
    RESTORING = "restoring", "Restoring"
    REPLAYING = "replaying", "Replaying"


class QueryStatus(Choices):
    STARTING = "starting", "Starting"
    AVAILABLE = "available", "Available"
    FAILED = "failed", "Failed"
    RECOVERING = "recovering", "Recovering"
    PARKED = "parked", "Parked"


class Severity(Choices):
    WARNING = "warning", "Warning"
    ERROR = "error", "Error"
