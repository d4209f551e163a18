"""``manage.py doctor``: whether other users of this host are kept out; what to do where they are not."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from host import environment
from host.private import database_files, file_problems, home_problems


class Command(BaseCommand):
    help = "Check that other users of this host cannot read or replace the installation's files."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        settings = environment.read()
        problems = [
            *home_problems(settings.home),
            *file_problems(database_files(settings.database_url)),
            *file_problems([settings.run / name for name in ("environment", "access.json")]),
        ]
        if problems:
            raise CommandError("\n".join([*problems, "`make up` does so for the files that are its own."]))
        self.stdout.write(f"{settings.home}: closed to other users of this host")
