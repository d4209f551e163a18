"""Admin pages of checkpoints and savepoints: owned by the system."""

from __future__ import annotations

from django.contrib import admin

from controlplane.administration.pages import SystemOwnedAdmin
from controlplane.checkpoints.models import Checkpoint, Savepoint


@admin.register(Checkpoint)
class CheckpointAdmin(SystemOwnedAdmin):
    list_display = (
        "topology",
        "epoch",
        "generation",
        "state",
        "acknowledged",
        "total",
        "size_bytes",
        "started_at",
        "ended_at",
        "cause",
    )
    list_filter = ("state", "topology")
    list_select_related = ("topology",)
    search_fields = ("topology__name", "=epoch", "cause")
    exclude = ("acknowledgements",)  # one for each partition: the dashboard shows them as a table


@admin.register(Savepoint)
class SavepointAdmin(SystemOwnedAdmin):
    list_display = (
        "name",
        "topology",
        "version",
        "epoch",
        "state",
        "size_bytes",
        "created_at",
        "requested_by",
    )
    list_filter = ("state", "topology")
    search_fields = ("name", "topology", "reason")
