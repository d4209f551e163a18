"""``manage.py validate topology.yaml``: say everything that is wrong with a specification."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.errors import Invalid
from controlplane.topologies.command_arguments import (
    problem_lines,
    specification_arguments,
    specification_given,
)
from controlplane.topologies.submission import specification_check
from domain.health.shape import counted


class Command(BaseCommand):
    help = "Check a ready-made pipeline, or a topology in a YAML or JSON file. Changes nothing."
    # `manage.py migrate` and `check` look at the settings; doing it again doubles the time to start.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        specification_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            verdict = specification_check(specification_given(options))
        except Invalid as error:
            raise CommandError(f"not valid:\n{problem_lines(error.problems)}") from error
        graph = verdict.topology
        if not verdict.valid or graph is None:
            raise CommandError(f"not valid:\n{problem_lines(verdict.problems)}")
        self.stdout.write(
            f"{graph.name} is valid: {counted(len(graph.partitions), 'partition')}, "
            f"{counted(len(graph.queries), 'query', 'queries')}"
        )
