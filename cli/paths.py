"""Paths below `/api/v1/`."""

from __future__ import annotations

from urllib.parse import quote


def resource(*parts: object) -> str:
    """`resource("topologies", "O3[2]")` is `topologies/O3%5B2%5D/`: a name is never more than one part."""
    return "".join(f"{quote(str(part), safe='')}/" for part in parts)
