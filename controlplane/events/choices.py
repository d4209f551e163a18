"""Kinds of events, operations and channels through which changes come."""

from __future__ import annotations

from controlplane.choices import Choices


class EventKind(Choices):
    TOPOLOGY_CREATED = "topology.created", "Topology created"
    TOPOLOGY_DEPLOYED = "topology.deployed", "Topology deployed"
    TOPOLOGY_UPDATED = "topology.updated", "Topology updated"
    TOPOLOGY_UNDEPLOYED = "topology.undeployed", "Topology undeployed"
    TOPOLOGY_DELETED = "topology.deleted", "Topology deleted"
    TOPOLOGY_METRICS = "topology.metrics", "Topology metrics"
    TOPOLOGY_REPLICAS = "topology.replicas", "Replicas placed"
    TOPOLOGY_TAKEN_OVER = "topology.taken_over", "Replicas took over"
    TOPOLOGY_COMPLETED = "topology.completed", "Topology completed"
    TOPOLOGY_FAILED = "topology.failed", "Topology failed"
    NODE_JOINED = "node.joined", "Node joined"
    NODE_SUSPECT = "node.suspect", "Node suspect"
    NODE_LOST = "node.lost", "Node lost"
    NODE_UPDATED = "node.updated", "Node updated"
    NODE_METRICS = "node.metrics", "Node metrics"
    NODE_LEFT = "node.left", "Node left"
    INCIDENT_OPENED = "incident.opened", "Incident opened"
    INCIDENT_GROWN = "incident.grown", "Incident grown"
    INCIDENT_UPDATED = "incident.updated", "Incident updated"
    INCIDENT_CLOSED = "incident.closed", "Incident closed"
    PLAN_PUBLISHED = "plan.published", "Plan published"
    PLAN_APPLIED = "plan.applied", "Plan applied"
    PLAN_VERIFIED = "plan.verified", "Plan verified"
    PLAN_SUPERSEDED = "plan.superseded", "Plan superseded"
    CHECKPOINT_STARTED = "checkpoint.started", "Checkpoint started"
    CHECKPOINT_COMPLETED = "checkpoint.completed", "Checkpoint completed"
    CHECKPOINT_FAILED = "checkpoint.failed", "Checkpoint failed"
    QUERY_UPDATED = "query.updated", "Query updated"
    QUERY_TENTATIVE = "query.tentative", "Tentative output begun"
    QUERY_CORRECTED = "query.corrected", "Tentative output corrected"
    PROBLEM_RAISED = "problem.raised", "Problem raised"
    OPERATION_UPDATED = "operation.updated", "Operation updated"
    ALERT_FIRING = "alert.firing", "Alert firing"
    ALERT_RESOLVED = "alert.resolved", "Alert resolved"
    ALERT_SILENCED = "alert.silenced", "Alerts silenced"
    ALERT_UNSILENCED = "alert.unsilenced", "Silence ended"
    ALERT_UPDATED = "alert.updated", "Alert values"
    RULE_UPDATED = "rule.updated", "Alert rule updated"


EVENT_TRIMMED = frozenset({EventKind.TOPOLOGY_METRICS, EventKind.NODE_METRICS, EventKind.ALERT_UPDATED})
"""Frequent and soon worthless: dropped after an hour, unlike the rest."""


class OperationKind(Choices):
    TOPOLOGY_DEPLOY = "topology.deploy", "Deploy"
    TOPOLOGY_UNDEPLOY = "topology.undeploy", "Undeploy"
    TOPOLOGY_CHECKPOINT = "topology.checkpoint", "Checkpoint"
    TOPOLOGY_RECOVER = "topology.recover", "Recover"
    TOPOLOGY_REBALANCE = "topology.rebalance", "Rebalance partitions"
    TOPOLOGY_RESTORE = "topology.restore", "Restore"
    TOPOLOGY_PARK = "topology.park", "Park queries"
    TOPOLOGY_UNPARK = "topology.unpark", "Unpark queries"
    TOPOLOGY_PAUSE = "topology.pause", "Pause"
    TOPOLOGY_RESUME = "topology.resume", "Resume"
    TOPOLOGY_VERIFY = "topology.verify", "Verify outputs"
    TOPOLOGY_SAVEPOINT = "topology.savepoint", "Make savepoint"
    NODE_DRAIN = "node.drain", "Drain node"
    NODE_ACTIVATE = "node.activate", "Activate node"
    NODE_FAIL = "node.fail", "Fail node"
    NODE_FORGET = "node.forget", "Forget node"
    RACK_DRAIN = "rack.drain", "Drain rack"
    RACK_ACTIVATE = "rack.activate", "Activate rack"
    INCIDENT_APPROVE = "incident.approve", "Approve plan"
    INCIDENT_PAUSE = "incident.pause", "Pause recovery"
    INCIDENT_RESUME = "incident.resume", "Resume recovery"
    INCIDENT_ABORT = "incident.abort", "Abort recovery"
    INCIDENT_ACCEPT = "incident.accept", "Accept latencies"
    INCIDENT_REPLAN = "incident.replan", "Replan"


class OperationState(Choices):
    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"


OPERATION_ENDED = frozenset({OperationState.SUCCEEDED, OperationState.FAILED})
OPERATION_OPEN = frozenset({OperationState.PENDING, OperationState.RUNNING})


class Channel(Choices):
    PAGE = "page", "Page"
    REST = "rest", "REST"
    ADMIN = "admin", "Admin site"
    CLI = "cli", "Command line"
    SYSTEM = "system", "System"
