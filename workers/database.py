"""Telling a database that is away or busy from one that refuses what it is given."""

from __future__ import annotations

from django.db import DatabaseError, InterfaceError, OperationalError, transaction

from controlplane.events.services import numbering_lock

TRIES = 3
"""Of what the database refuses: another process's change at the same moment passes."""


def refuses(error: Exception) -> bool:
    """Whether it is the value that is at fault: the error says so, or the database takes other writes now."""
    if not isinstance(error, OperationalError | InterfaceError):
        return True
    if "lock" in str(error):  # it is busy, and asking would wait as long again
        return False
    try:
        with transaction.atomic():
            numbering_lock()
    except DatabaseError:
        return False
    return True
