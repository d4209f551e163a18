"""How many random examples tests draw: `make test` a part of them, `make test-long` all, and others each time
(RESURGE_TEST_EXAMPLES=new)."""

from __future__ import annotations

import os

DRAWN = os.environ.get("RESURGE_TEST_EXAMPLES", "same")
PART = 3


def examples(count: int) -> int:
    """Of `count` examples, those that are drawn."""
    return count if DRAWN == "new" else -(-count // PART)
