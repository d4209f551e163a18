"""Real data for tests, which is not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(name: str) -> Path:
    """The path of a data file. If it is missing, the test is skipped; in CI it fails."""
    path = Path(os.environ.get("RESURGE_TEST_DATA", _DEFAULT)) / name
    if not path.exists():
        message = f"{path} is missing; set RESURGE_TEST_DATA to the directory that holds it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path
