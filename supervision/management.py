"""Commands of `manage.py`, in a shell too: they concern the installation in RESURGE_HOME."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from host.private import database_files
from supervision.installation import INSTANCE, home_directory, recorded_variables

OF_THE_CODE = ("check", "makemigrations")
"""Commands that concern no installation."""
FAILED = 2


def command_run(arguments: Sequence[str]) -> None:
    """In a shell, with the variables of the last start as far as the shell has none of that name. A database
    that cannot be used ends it with a line and code 2."""
    if INSTANCE not in os.environ and not set(arguments[1:2]) & set(OF_THE_CODE):
        for name, value in recorded_variables(home_directory()).items():
            if name != INSTANCE and not os.environ.get(name):
                os.environ[name] = value
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    try:
        execute_from_command_line([*arguments])
    except (OperationalError, ProgrammingError) as error:
        sys.stderr.write(f"{_database_problem(str(error).strip())}\n")
        sys.exit(FAILED)


def _database_problem(said: str) -> str:
    from django.conf import settings

    files = database_files(settings.RESURGE.database_url)
    database = settings.DATABASES["default"]
    place = files[0] if files else f"{database['NAME']} at {database['HOST'] or 'this host'}"
    if _NO_TABLE.search(said):
        return (
            f"{place} is not the database of an installation, or `make up` has not prepared it yet: name "
            "RESURGE_HOME, or RESURGE_DATABASE_URL, as for `make up`"
        )
    if _NO_COLUMN.search(said):
        return f"the database {place} is of another version: `make down`, then `make up` brings it up to date"
    return f"the database {place} cannot be used: {said}"


_NO_TABLE = re.compile('no such table|relation "')
_NO_COLUMN = re.compile("no such column|has no column|column .* does not exist")
