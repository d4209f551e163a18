from __future__ import annotations

from django.apps import AppConfig


class NodesConfig(AppConfig):
    name = "controlplane.nodes"
    label = "nodes"
    default_auto_field = "django.db.models.BigAutoField"
