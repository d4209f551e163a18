from __future__ import annotations

from django.apps import AppConfig


class ReplicationConfig(AppConfig):
    name = "controlplane.replication"
    label = "replication"
    default_auto_field = "django.db.models.BigAutoField"
