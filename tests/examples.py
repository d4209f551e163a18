"""How much is tested: `make test` draws a part of the random examples, the same in every run, and leaves
out tests marked `long`. With RESURGE_TEST_EXAMPLES=new, as in `make test-long`, all tests run, and all
examples are drawn, others each time."""

from __future__ import annotations

import os

DRAWN = os.environ.get("RESURGE_TEST_EXAMPLES", "same")
ALL = "new"
PART = 4


def examples(count: int) -> int:
    """Of `count` examples, those that are drawn."""
    return count if DRAWN == ALL else -(-count // PART)
