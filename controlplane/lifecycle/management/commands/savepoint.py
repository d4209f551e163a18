"""`manage.py savepoint --operation ID`: copy the checkpoint that an operation asks for."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.lifecycle.saving import operation_save


class Command(BaseCommand):
    help = (
        "Carry out a request for a savepoint, and record its outcome. The launcher starts it; to ask for a"
        " savepoint, use `resurge savepoints create`."
    )
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--operation", metavar="ID", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        operation_save(options["operation"])
