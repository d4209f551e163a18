"""Telling a database that is away or busy from one that refuses what it is given."""

from __future__ import annotations

from django.db import Error

from controlplane.errors import DATABASE_AWAY
from controlplane.events.services import numbering_try

TRIES = 3
"""Of what the database refuses: another process's change at the same moment passes."""
BUSY_OR_FULL = ("lock", "full", "No space")
"""In errors where asking would wait as long again, or a small write may succeed and others do not."""


def refuses(error: Exception) -> bool:
    """Whether it is the value that is at fault: the error says so, or the database takes other writes now."""
    if not isinstance(error, DATABASE_AWAY):
        return True
    if any(word in str(error) for word in BUSY_OR_FULL):
        return False
    try:
        numbering_try()
    except Error:
        return False
    return True
