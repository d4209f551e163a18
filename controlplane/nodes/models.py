"""Nodes as last seen, and the requests for new ones."""

from __future__ import annotations

from django.db import models

from controlplane.nodes.choices import NodeRequestState, NodeState


class Node(models.Model):
    """A host that can run partitions. ZooKeeper owns liveness; this row is its history."""

    name = models.CharField(max_length=64, unique=True)
    address = models.CharField(max_length=255, blank=True, default="")
    rack = models.CharField(max_length=64, blank=True, default="")
    slots = models.PositiveIntegerField(default=1)
    capacity = models.FloatField(default=100.0, help_text="CPU percent")
    standby = models.BooleanField(default=False)
    state = models.CharField(
        max_length=16, choices=NodeState.choices, default=NodeState.REQUESTED, db_index=True
    )
    session = models.CharField(max_length=32, blank=True, default="")
    pid = models.PositiveIntegerField(null=True, blank=True)
    registered_at = models.DateTimeField(null=True, blank=True)
    last_heartbeat = models.DateTimeField(null=True, blank=True)
    cpu_percent = models.FloatField(null=True, blank=True, help_text="measured; 100 is one core")
    predicted_percent = models.FloatField(
        null=True, blank=True, help_text="CPU percent that the planner expects at the normal pace"
    )
    agent_percent = models.FloatField(
        default=0.0, help_text="CPU percent of the agent alone, a moving average"
    )
    throttled = models.FloatField(
        default=0.0, help_text="share of the quota's periods in which the node was stopped, between 0 and 1"
    )
    memory_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    disk_free_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    provider = models.CharField(max_length=32, default="local")
    created_at = models.DateTimeField(auto_now_add=True)
    forgotten_at = models.DateTimeField(
        null=True, blank=True, help_text="since when no list names it; empty: they do"
    )

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class NodeSample(models.Model):
    """A node's CPU over some seconds, measured and as the planner expects it."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField(help_text="when the seconds ended")
    cpu_percent = models.FloatField(help_text="mean of the seconds; 100 is one core")
    predicted_percent = models.FloatField(
        null=True, blank=True, help_text="expected at the normal pace; empty before anything was measured"
    )
    throttled = models.FloatField(
        default=0.0, help_text="share of the quota's periods in which the node was stopped, between 0 and 1"
    )

    class Meta:
        ordering = ("node", "at")
        indexes = (models.Index(fields=["node", "at"]), models.Index(fields=["at"]))

    def __str__(self) -> str:
        return f"{self.node} at {self.at:%H:%M:%S}"


class NodeRequest(models.Model):
    """A node asked of the provider; `key` makes the asking idempotent."""

    incident = models.ForeignKey(
        "incidents.Incident",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="node_requests",
    )
    key = models.CharField(max_length=128, unique=True)
    node_name = models.CharField(max_length=64)
    rack = models.CharField(max_length=64, blank=True, default="")
    slots = models.PositiveIntegerField(default=1)
    capacity = models.FloatField(default=100.0, help_text="CPU percent")
    standby = models.BooleanField(default=False)
    requested_at = models.DateTimeField()
    due_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="the provider will not bring it up before; empty: it named no time",
    )
    state = models.CharField(
        max_length=16,
        choices=NodeRequestState.choices,
        default=NodeRequestState.PENDING,
        db_index=True,
    )
    attempt = models.PositiveIntegerField(default=1)
    started_at = models.DateTimeField(null=True, blank=True)
    joined_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("due_at", "id")

    def __str__(self) -> str:
        return f"{self.node_name} ({self.state})"
