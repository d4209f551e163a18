"""``manage.py undeploy hashtags``: stop a topology at the next epoch boundary."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.errors import ServiceError
from controlplane.events.choices import Channel
from controlplane.lifecycle.topologies import topology_undeploy


class Command(BaseCommand):
    help = "Stop a topology at the next epoch boundary."
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("topology")
        parser.add_argument("--reason", default="undeployed from the command line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            operation = topology_undeploy(
                name=options["topology"],
                actor=getpass.getuser(),
                reason=options["reason"],
                channel=Channel.CLI,
            )
        except ServiceError as error:
            raise CommandError(f"not undeployed: {error}") from error
        self.stdout.write(f"{options['topology']}: stopping; operation {operation.pk}")
