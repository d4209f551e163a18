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


class Start(Choices):
    """Where a topology that is deployed starts."""

    BEGINNING = "beginning", "With its first tuple, without state"
    CHECKPOINT = "checkpoint", "From its newest checkpoint"
    SAVEPOINT = "savepoint", "From a savepoint, which begins a new deployment"


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


class Guarantee(Choices):
    """What a topology promises of its results after a failure, as its specification says (`guarantee`)."""

    EXACT = "exact", "Exact: each row counts once"
    BOUNDED = "bounded", "Bounded: each row counts at most once"


class RecoveryMethod(Choices):
    BLOCKING = "blocking", "Blocking"
    INCREMENTAL = "incremental", "Incremental"
    MOVE = "move", "Move"


class MethodPolicy(Choices):
    AUTO = "auto", "Automatic"
    BLOCKING = "blocking", "Blocking"
    INCREMENTAL = "incremental", "Incremental"


class RollbackPolicy(Choices):
    ANCESTORS = "ancestors", "Only failed partitions replay"
    GLOBAL = "global", "Everything rolls back"


class ApprovalPolicy(Choices):
    AUTOMATIC = "automatic", "Automatic"
    APPROVE = "approve", "An operator approves each plan"


class RebalancingPolicy(Choices):
    AUTOMATIC = "automatic", "Automatic"
    MANUAL = "manual", "Manual"


class OverloadPolicy(Choices):
    AUTOMATIC = "automatic", "Automatic: park the least valuable queries"
    MANUAL = "manual", "Manual"


class SlowNodesPolicy(Choices):
    AUTOMATIC = "automatic", "Automatic: drain them"
    MANUAL = "manual", "Manual"


class ReplicationMode(Choices):
    OFF = "off", "No plan, no replicas"
    ADVISE = "advise", "Plans are only shown"
    ON = "on", "Replicas run"


class TentativeOutput(Choices):
    OFF = "off", "Queries wait for lost inputs"
    ON = "on", "Queries go on without lost inputs"


PLANNER_CHOICES = [(name, name.replace("_", " ").capitalize()) for name in sorted(PLANNERS)]
"""The algorithms that choose what returns first."""

REPLICATION_PLANNER_CHOICES = [(name, name.replace("_", " ").capitalize()) for name in REPLICATION_PLANNERS]
"""The algorithms that choose what is worth a replica."""

REPLICATION_OBJECTIVE_CHOICES = [
    ("weighted", "Outputs count by rate and priority"),
    ("plain", "Outputs count by rate"),
]
"""What a replication plan keeps as much as possible of."""


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


QUERY_MEASURED = frozenset({QueryStatus.AVAILABLE, QueryStatus.RECOVERING})
"""Latencies of these are of now."""


class Severity(Choices):
    WARNING = "warning", "Warning"
    ERROR = "error", "Error"
