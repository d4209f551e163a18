"""The server's kinds and states, for completion. A value that is not listed here is still sent."""

from __future__ import annotations

CHANNELS = ("page", "rest", "admin", "cli", "system")
OPERATION_KINDS = (
    "topology.deploy",
    "topology.undeploy",
    "topology.checkpoint",
    "topology.recover",
    "topology.rebalance",
    "topology.restore",
    "topology.park",
    "topology.unpark",
    "topology.pause",
    "topology.resume",
    "node.drain",
    "node.activate",
    "node.fail",
    "incident.approve",
    "incident.pause",
    "incident.resume",
    "incident.abort",
    "incident.replan",
)
WEBHOOK_KINDS = (
    "topology.created",
    "topology.deployed",
    "topology.updated",
    "topology.undeployed",
    "topology.deleted",
    "topology.completed",
    "topology.failed",
    "node.joined",
    "node.suspect",
    "node.lost",
    "node.updated",
    "node.left",
    "incident.opened",
    "incident.grown",
    "incident.updated",
    "incident.closed",
    "plan.published",
    "plan.applied",
    "plan.verified",
    "plan.superseded",
    "checkpoint.started",
    "checkpoint.completed",
    "checkpoint.failed",
    "query.updated",
    "problem.raised",
    "operation.updated",
)
EVENT_KINDS = (*WEBHOOK_KINDS, "topology.metrics", "node.metrics")
