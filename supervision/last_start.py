"""What the start of all that runs was told, and its code: a later command may differ from it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from host.environment import ROOT, read
from host.private import write_private
from supervision.installation import recorded_variables

NAMES = ("INPUT", "RATE", "LIMIT", "PIPELINE", "NODES", "STANDBYS", "SLOTS", "CAPACITY")
"""Of what make hands on, that which takes effect with a start only."""
PACKAGES = (
    "controlplane",
    "coordination",
    "dashboard",
    "domain",
    "host",
    "spark_jobs",
    "supervision",
    "workers",
)
HINT = "run `make down`, then this command again"


class LastStart(msgspec.Struct, frozen=True):
    """`run/last-start.json`."""

    code: str
    told: dict[str, str]


_decoder = msgspec.json.Decoder(LastStart)


def last_start_keep(home: Path) -> None:
    write_private(_path(home), msgspec.json.encode(LastStart(code_digest(), _told(os.environ))))


def last_start_notes(home: Path, variables: Mapping[str, str]) -> list[str]:
    """Why this command does not do all that it would do after `make down`, a line for each reason. Raises
    `InvalidEnvironment`."""
    try:
        last = _decoder.decode(_path(home).read_bytes())
    except (OSError, msgspec.DecodeError):  # of an earlier version
        last = LastStart("", {})
    other = [name for name, value in _told(variables).items() if last.told.get(name) != value]
    runs = recorded_variables(home)
    given = {
        name: value for name, value in sorted(variables.items()) if name.startswith("RESURGE_") and value
    }
    other += [name for name, value in given.items() if read({**runs, name: value}) != read(runs)]
    notes = [f"Note      for {', '.join(other)} {HINT}"] if other else []
    if last.code != code_digest():
        notes.append(f"Note      this is another version than the one that runs: {HINT}")
    return notes


def code_digest(root: Path = ROOT) -> str:
    """Of all modules that processes of an installation load."""
    digest = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _told(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name in NAMES if (value := variables.get(name, "").strip())}


def _path(home: Path) -> Path:
    return home / "run" / "last-start.json"
