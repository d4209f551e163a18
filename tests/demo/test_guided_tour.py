"""The guided tour, taken in a browser from a fresh `make up` with its defaults: a rack fails, queries return
in waves, blocking is compared, and every row is verified: `python -m supervision.long_checks --only demo`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from harness.chromium import LAUNCH, sign_in
from harness.stack import free_port
from host.environment import ROOT
from supervision.access import Access, access_read
from supervision.rest import Rest

pytestmark = pytest.mark.integration

CARD = "section.guide"
TOUR, SECONDS = 300.0, 1000.0
LEAST_WAVES = 3


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
def page() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        found = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        found.set_default_timeout(TOUR * SECONDS)
        yield found
        browser.close()


def step(page: Any, title: str) -> None:
    page.wait_for_selector(f"{CARD} h2:text-is('{title}')")


def press(page: Any, label: str) -> None:
    page.click(f"{CARD} button:has-text('{label}')")


def confirm(page: Any) -> None:
    """The reason is filled in already."""
    page.wait_for_selector("dialog[open] textarea")
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector("dialog[open]", state="detached")


def test_the_tour_ends_verified_with_three_waves_in_five_minutes(demo: Access, page: Any) -> None:
    sign_in(page, demo.url.rstrip("/"), demo.user, demo.password)
    page.wait_for_selector("section.offer")
    began = time.monotonic()
    page.click("section.offer button:text-is('Start the tour')")
    step(page, "Predict a failure")
    press(page, "See the prediction")
    page.wait_for_selector(".answer")
    step(page, "Fail a rack")
    press(page, "Fail ")
    confirm(page)
    step(page, "Watch the waves")
    page.wait_for_url("**/incidents/1/")
    step(page, "Compare with blocking")
    page.wait_for_selector(f"{CARD} table:not(:has-text('…'))")
    compared = [row.inner_text().split("\t") for row in page.locator(f"{CARD} tbody tr").all()]
    press(page, "Next")
    step(page, "Verify every row")
    press(page, "Verify the outputs")
    confirm(page)
    step(page, "The outputs are exact")
    took = time.monotonic() - began
    told = page.locator(CARD).inner_text()
    press(page, "End the tour")
    page.wait_for_selector(CARD, state="detached")

    rest = Rest(demo.url, demo.token)
    incident = rest.get("incidents/1/")
    waves = [plan for plan in rest.listing("incidents/1/plans/") if plan["applied_at"]]
    (verified,) = rest.listing("operations/?kind=topology.verify")
    print(f"\n{took:.0f} s; {len(waves)} waves; {told!r}; {compared}", file=sys.stderr)
    assert len(incident["failed_nodes"]) == 2
    assert incident["health"]["state"] == "recovered"
    assert len(waves) >= LEAST_WAVES
    assert verified["state"] == "succeeded"
    assert verified["result"]["exact"] == verified["result"]["queries"] == 15
    assert verified["result"]["rows"] > 0
    assert took < TOUR
