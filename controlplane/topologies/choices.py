"""States of topologies, partitions and queries."""

from __future__ import annotations

from controlplane.choices import Choices, ColouredChoices
from domain.planning import PLANNERS
from domain.replication import REPLICATION_PLANNERS


class TopologyStatus(ColouredChoices):
    DRAFT = "draft", "grey", "Draft"
    DEPLOYING = "deploying", "blue", "Deploying"
    RUNNING = "running", "green", "Running"
    DEGRADED = "degraded", "orange", "Degraded"
    RECOVERING = "recovering", "orange", "Recovering"
    PAUSED = "paused", "grey", "Paused"
    COMPLETED = "completed", "teal", "Completed"
    FAILED = "failed", "red", "Failed"
    STOPPING = "stopping", "blue", "Stopping"
    STOPPED = "stopped", "grey", "Stopped"


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


PLANNER_CHOICES = [(name, name.replace("_", " ").capitalize()) for name in sorted(PLANNERS)]
"""Who chooses what returns first."""

REPLICATION_PLANNER_CHOICES = [(name, name.replace("_", " ").capitalize()) for name in REPLICATION_PLANNERS]
"""Who chooses what is worth a replica."""


class PartitionState(ColouredChoices):
    STARTING = "starting", "blue", "Starting"
    RUNNING = "running", "green", "Running"
    STALLED = "stalled", "orange", "Stalled"
    FAILED = "failed", "red", "Failed"
    RESTORING = "restoring", "orange", "Restoring"
    REPLAYING = "replaying", "yellow", "Replaying"


class QueryStatus(ColouredChoices):
    STARTING = "starting", "blue", "Starting"
    AVAILABLE = "available", "green", "Available"
    FAILED = "failed", "red", "Failed"
    RECOVERING = "recovering", "orange", "Recovering"


class Severity(ColouredChoices):
    WARNING = "warning", "orange", "Warning"
    ERROR = "error", "red", "Error"
