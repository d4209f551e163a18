"""The built front end: its first module, and the hash of the sources it was built from."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

BUILT = Path(__file__).parent / "static" / "dashboard"


def built_hash(built: Path = BUILT) -> str:
    """The hash recorded by the build; raises FileNotFoundError when nothing was built."""
    recorded = json.loads((built / "build.json").read_text())["sources"]
    assert isinstance(recorded, str)  # noqa: S101 - the build wrote it
    return recorded


@cache
def app_module(built: Path = BUILT) -> str:
    """File name of the module that a page loads first; raises FileNotFoundError when nothing was built."""
    recorded = json.loads((built / "build.json").read_text())["app"]
    assert isinstance(recorded, str)  # noqa: S101 - the build wrote it
    return recorded


def names_its_content(address: str) -> bool:
    """Whether a module's address holds the hash of its content."""
    return re.search(r"-[\w-]{8}\.js$", address) is not None


@cache
def asset_version() -> str:
    """Short and stable: part of the assets' addresses, so that a new build is fetched at once."""
    return built_hash()[:12]
