"""`manage.py launcher`: keep a driver for every deployed topology and start the nodes that are due."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from host import environment
from workers.launcher.launcher import Launcher
from workers.providers.registry import provider_create


class Command(BaseCommand):
    help = "Keep one driver alive for every deployed topology and start nodes that are due."

    def handle(self, *args: Any, **options: Any) -> None:
        settings = environment.read()
        Launcher(settings, provider_create(settings)).run()
