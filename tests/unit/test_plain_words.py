"""Texts name the client, user, partition or process that acts, instead of "somebody"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSED = re.compile(
    r"(?<![a-z])(whoever|somebody|someone|everybody|nobody|anybody|anyone)(?![a-z])", re.IGNORECASE
)
"""Also as a part of a name: `test_nobody_...`."""

PLACES = (
    "benchmarks", "cli", "controlplane", "coordination", "dashboard", "docs", "domain", "harness", "host",
    "spark_jobs", "supervision", "tests", "workers", "README.md", "CHANGELOG.md",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".html", ".svelte", ".ts", ".js", ".yaml"}
NOT_OURS = ("node_modules", "migrations", "static")
THIS = Path(__file__).resolve()


def place_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources(place: str) -> list[Path]:
    found = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*.*"))
    return [
        path
        for path in found
        if path.suffix in SUFFIXES and path != THIS and not set(NOT_OURS) & set(path.parts)
    ]


@pytest.mark.parametrize("place", PLACES)
def test_texts_name_who_acts(place: str) -> None:
    paths = sources(place)
    assert paths
    refused = [
        f"{place_of(path)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REFUSED.search(line)
    ]
    assert not refused, "say which client, user, partition or process:\n" + "\n".join(refused)
