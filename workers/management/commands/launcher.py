"""`manage.py launcher`: keep a driver for every deployed topology and start the nodes that are due."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from host import environment
from workers.launcher.launcher import Launcher
from workers.providers.base import ProviderError
from workers.providers.registry import provider_create


class Command(BaseCommand):
    help = "Keep one driver alive for every deployed topology and start nodes that are due."
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        settings = environment.read()
        try:
            provider = provider_create(settings)
        except ProviderError as error:
            raise CommandError(str(error)) from error
        Launcher(settings, provider).run()
