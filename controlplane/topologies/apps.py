from __future__ import annotations

from django.apps import AppConfig


class TopologiesConfig(AppConfig):
    name = "controlplane.topologies"
    label = "topologies"
    default_auto_field = "django.db.models.BigAutoField"
