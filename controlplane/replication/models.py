"""Which replicas a topology is to have, and where."""

from __future__ import annotations

from django.db import models


class ReplicaPlacement(models.Model):
    """The replicas of one topology, as its driver is told to have them. What a fresh plan would be better by
    is remembered from one look to the next (`domain.replication.adapting`)."""

    topology = models.OneToOneField(
        "topologies.Topology", on_delete=models.CASCADE, related_name="replica_placement"
    )
    revision = models.PositiveIntegerField(
        default=0, help_text="raised with each change; the driver is told the newest"
    )
    deployed = models.PositiveIntegerField(
        default=0, help_text="generation of the plan that deployed the topology then"
    )
    assignment = models.JSONField(default=dict, blank=True, help_text="partition id -> node name")
    tentative = models.JSONField(
        default=dict,
        blank=True,
        help_text="operators whose queries may give tentative output -> the fidelity that it must be above",
    )
    target = models.JSONField(
        default=list, blank=True, help_text="partitions that are to have a replica, the most important first"
    )
    better = models.PositiveIntegerField(
        default=0, help_text="at how many looks in a row a fresh plan has been better"
    )
    asked = models.JSONField(
        default=list, blank=True, help_text="budget and planner of the policy when the target was made"
    )
    unplaced = models.JSONField(
        default=list, blank=True, help_text="those of the target for which no node has room"
    )
    waiting = models.JSONField(default=list, blank=True, help_text="those that come or go at a later look")
    note = models.TextField(blank=True, default="", help_text="why there are none, or none are changed")
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("topology",)

    def __str__(self) -> str:
        return f"{self.topology}: {len(self.assignment)} replicas"


class FidelityFigure(models.Model):
    """What the outputs of a topology that runs are worth, as a share of what they would be worth whole."""

    topology = models.OneToOneField(
        "topologies.Topology", on_delete=models.CASCADE, related_name="fidelity_figure"
    )
    at = models.DateTimeField(help_text="when it was computed")
    now = models.FloatField(help_text="with the nodes that are there")
    worst_rack = models.FloatField(
        null=True, blank=True, help_text="without the rack that matters most; empty: no rack is known"
    )
    rack = models.CharField(max_length=64, blank=True, default="", help_text="that rack")

    class Meta:
        ordering = ("topology",)

    def __str__(self) -> str:
        return f"{self.topology}: {self.now:.2f}"
