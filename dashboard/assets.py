"""The built front end, and the hash of the sources it was built from."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

BUILT = Path(__file__).parent / "static" / "dashboard"


def built_hash(built: Path = BUILT) -> str:
    """The hash recorded by the build; raises FileNotFoundError when nothing was built."""
    recorded = json.loads((built / "build.json").read_text())["sources"]
    assert isinstance(recorded, str)  # noqa: S101 - the build wrote it
    return recorded


@cache
def asset_version() -> str:
    """Short and stable: part of the assets' addresses, so that a new build is fetched at once."""
    return built_hash()[:12]
