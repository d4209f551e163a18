"""Which installation this is: the database and ZooKeeper both know it.

A database that was lost and begun anew has another id than what is still in ZooKeeper, and one that was
restored from a backup has the same.
"""

from __future__ import annotations

from uuid import uuid4

from controlplane.topologies.models import Installation


def installation_id() -> str:
    """The id of this database, made when it is first asked for."""
    row, _ = Installation.objects.get_or_create(pk=1, defaults={"identity": uuid4().hex})
    return row.identity
