"""Since when the health of something is what it is."""

from __future__ import annotations

from django.db import models


class HealthMark(models.Model):
    """What was told last of the health of one entity. Health itself is derived whenever it is read."""

    entity = models.CharField(max_length=16)
    key = models.CharField(max_length=200, help_text="of the entity, as the snapshot has it")
    topology = models.CharField(max_length=64, blank=True, default="", help_text="of a query or topology")
    state = models.CharField(max_length=16)
    digest = models.CharField(max_length=32, help_text="of what was told: it is told again if that changes")
    since = models.DateTimeField(help_text="since when the state is this one")

    class Meta:
        ordering = ("entity", "key")
        constraints = (models.UniqueConstraint(fields=["entity", "key"], name="health_of_one"),)
        indexes = (models.Index(fields=["topology"], name="health_topology"),)

    def __str__(self) -> str:
        return f"{self.entity} {self.key}: {self.state}"
