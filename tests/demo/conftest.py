"""A demo that was started by `make up` with its defaults, and a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from harness.chromium import LAUNCH
from harness.stack import free_port
from host.environment import ROOT
from supervision.access import Access, access_read

PATIENCE = 300_000
"""Milliseconds."""


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Access]:
    """`make up DETACH=1` in a home of its own, with the defaults of the product and nothing of this shell."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RESURGE_")
        and name not in {"PROFILE", "PIPELINE", "INPUT", "RATE", "LIMIT", "NODES", "SLOTS", "CAPACITY"}
    }
    home = tmp_path / "home"
    environment = {**kept, "RESURGE_HOME": str(home), "RESURGE_PORT": str(free_port()), "DETACH": "1"}
    make = ["make", "-C", str(ROOT), f"PYTHON={sys.executable}"]
    try:
        subprocess.run([*make, "up"], env=environment, check=True)
        access = access_read(home)
        assert access is not None
        yield access
    finally:
        subprocess.run([*make, "down"], env=environment, check=True)


@pytest.fixture
def new_page() -> Iterator[Callable[[], Any]]:
    """Makes pages that share one session."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE)
        yield context.new_page
        browser.close()
