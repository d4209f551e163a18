"""Exported rules, as the texts that they are."""

from __future__ import annotations

from typing import Any

from rest_framework.renderers import BaseRenderer


class PrometheusRenderer(BaseRenderer):
    media_type = "application/yaml"
    format = "prometheus"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return str(data).encode()


class GrafanaRenderer(PrometheusRenderer):
    media_type = "application/json"
    format = "grafana"
