"""Edits that hold only for what their author has seen: entity tags, and comparing them under the lock."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from controlplane.errors import Stale


def entity_tag(*parts: Any) -> str:
    """A strong entity tag (with its quotes) of values that JSON can hold."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'


@dataclass(frozen=True, slots=True)
class Expected:
    """What the author of an edit has seen; without tags, anything."""

    tags: frozenset[str] | None = None

    def require(self, present: str, what: str) -> None:
        """Raise `Stale` where `what` is tagged otherwise by now. To be called with its row locked."""
        if self.tags is not None and present not in self.tags:
            raise Stale(
                f"{what} was changed meanwhile, perhaps by another user; read it again, and repeat your "
                "change if it is still right",
                present,
            )


ANYTHING = Expected()
