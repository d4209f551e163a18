"""`python -m tests.integration.control_plane.all_pairs`: runs `every_pair.py`; says so where it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from supervision.checks import SKIPPED, say
from tests.integration.control_plane.postgresql import programs


def main() -> int:
    if programs() is None:
        say("PostgreSQL is not installed on this machine")
        return SKIPPED
    return int(pytest.main(["-q", str(Path(__file__).with_name("every_pair.py")), *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
