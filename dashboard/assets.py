"""The built front end: which sources it was made from, and whether those are still the same."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

FRONTEND = Path(__file__).parent / "frontend"
BUILT = Path(__file__).parent / "static" / "dashboard"
CONFIGURATION = (
    "package-lock.json",
    "package.json",
    "svelte.config.js",
    "vite.config.ts",
    "scripts/stamp.mjs",
)


def sources_hash(frontend: Path = FRONTEND) -> str:
    """Hash over names and contents of everything a build reads; scripts/stamp.mjs computes the same."""
    paths = [path for path in (frontend / "src").rglob("*") if path.is_file()]
    paths += [frontend / name for name in CONFIGURATION]
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.relative_to(frontend).as_posix()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(frontend).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def built_hash(built: Path = BUILT) -> str:
    """The hash recorded by the build; raises FileNotFoundError when nothing was built."""
    recorded = json.loads((built / "build.json").read_text())["sources"]
    assert isinstance(recorded, str)  # noqa: S101 - the build wrote it
    return recorded


@cache
def asset_version() -> str:
    """Short and stable: part of the assets' addresses, so that a new build is fetched at once."""
    return built_hash()[:12]
