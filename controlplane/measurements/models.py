"""What topologies, queries, operators and nodes did, over time."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.measurements.choices import MeasuredKind


class Measurement(models.Model):
    """Figures of one bucket: of a topology, of one of its queries or operators, or of a node."""

    kind = models.CharField(max_length=8, choices=MeasuredKind.choices)
    topology = models.ForeignKey(
        "topologies.Topology", null=True, on_delete=models.CASCADE, related_name="measurements"
    )
    node = models.ForeignKey("nodes.Node", null=True, on_delete=models.CASCADE, related_name="measurements")
    part = models.CharField(
        max_length=80, blank=True, default="", help_text="query or operator; empty: all of the topology"
    )
    seconds = models.PositiveSmallIntegerField(help_text="length of the bucket, in seconds")
    at = models.DateTimeField(help_text="when it began")
    figures = models.JSONField(help_text="figure -> how many values, their mean, the lowest, the highest")

    class Meta:
        ordering = ("at",)
        indexes = (models.Index(fields=["seconds", "at"]),)
        constraints = (
            models.CheckConstraint(
                condition=Q(topology__isnull=False, node__isnull=True)
                | Q(topology__isnull=True, node__isnull=False, kind=MeasuredKind.NODE),
                name="measurement_of_one",
            ),
            models.UniqueConstraint(
                fields=["topology", "seconds", "kind", "part", "at"],
                condition=Q(node__isnull=True),
                name="measurement_of_topology",
            ),
            models.UniqueConstraint(
                fields=["node", "seconds", "at"],
                condition=Q(topology__isnull=True),
                name="measurement_of_node",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.part} at {self.at:%H:%M:%S}, {self.seconds} s"
