"""The guided tour, taken in a browser from a fresh `make up` with its defaults: a rack fails, queries return
in waves, blocking is compared, and every row is verified: `python -m supervision.long_checks --only demo`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.chromium import sign_in
from supervision.access import Access
from supervision.rest import Rest

pytestmark = pytest.mark.integration

CARD = "section.guide"
TOUR = 300.0
"""Seconds."""
LEAST_WAVES = 3


def step(page: Any, title: str) -> None:
    page.wait_for_selector(f"{CARD} h2:text-is('{title}')")


def press(page: Any, label: str) -> None:
    page.click(f"{CARD} button:has-text('{label}')")


def confirm(page: Any) -> None:
    """The reason is filled in already."""
    page.wait_for_selector("dialog[open] textarea")
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector("dialog[open]", state="detached")


def test_the_tour_ends_verified_with_three_waves_in_five_minutes(
    demo: Access, new_page: Callable[[], Any]
) -> None:
    page = new_page()
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
