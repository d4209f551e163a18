"""`manage.py alert_rules --format prometheus`: the rules for another monitoring system."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.alerts.export.grafana import grafana_dashboard
from controlplane.alerts.export.prometheus import prometheus_rules
from controlplane.alerts.selectors import rule_list

FORMATS = {"prometheus": prometheus_rules, "grafana": grafana_dashboard}


class Command(BaseCommand):
    help = "Write the alert rules that are on as rules of Prometheus, or as a dashboard of Grafana."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=tuple(FORMATS), required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(FORMATS[options["format"]](rule_list()), ending="")
