"""REST knows webhooks by number, people by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.failures import MissingError
from cli.numbers import whole
from cli.paths import resource

if TYPE_CHECKING:
    from cli.client import Rest


def webhook_id(rest: Rest, name: str) -> int:
    """The number of the webhook called `name`; a name begins with a letter. Raises `MissingError`."""
    if whole(name):
        return int(name)
    rows = rest.rows(resource("webhooks"), {"name": name})
    if not rows:
        raise MissingError(f"webhooks/{name}: there is no webhook of this name")
    return int(rows[0]["id"])
