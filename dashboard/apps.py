from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        from dashboard.checks import proxy_check

        checks.register(proxy_check, checks.Tags.security)
