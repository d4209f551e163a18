"""The walks in docs/architecture.md name modules that exist, and say which one is called twice."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from host.environment import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = TEXT.split("## Four walks through the code")[1].split("\n## ")[0]
NAMES = ("One tuple", "One lost heartbeat", "An operator's", "One checkpoint")
TWICE = {
    "One checkpoint": {
        # To begin and to complete it.
        "domain/execution/checkpoints.py",
    }
}


def walk(name: str) -> list[str]:
    text = WALKS.split(f"**{name}")[1].split("\n\n**")[0].split("\n\nIn the walk")[0]
    return re.findall(r"`([a-z_]+/[\w./]+)`", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_walk_names_modules_that_exist(name: str) -> None:
    modules = walk(name)
    assert len(modules) >= 8
    missing = [module for module in modules if not (ROOT / module).exists()]
    assert not missing


@pytest.mark.parametrize("name", NAMES)
def test_no_module_is_visited_twice_without_need(name: str) -> None:
    twice = {module for module, times in Counter(walk(name)).items() if times > 1}
    assert twice == TWICE.get(name, set())
