"""The guided tour of the dashboard on seeded servers. From a real failure to its end it is taken by
`tests/demo`, which is in the long tier."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.conftest import enter
from tests.browser.servers import Server

pytestmark = pytest.mark.browser

CARD = "section.guide"
OFFER = "section.offer"
KEPT = "localStorage.getItem('resurge.tour')"


def taken_up(page: Any, server: Server, path: str, **state: object) -> None:
    """Open a page in the middle of a tour."""
    kept = json.dumps({"stage": "running", "topology": "hashtags", "rack": "rack-a", "since": "", **state})
    page.add_init_script(f"{KEPT} || localStorage.setItem('resurge.tour', {json.dumps(kept)})")
    enter(page, server, path)
    page.wait_for_selector(CARD)


def test_the_offer_can_be_refused_and_does_not_come_back(healthy: Server, page: Any) -> None:
    enter(page, healthy)
    page.click(f"{OFFER} button:text-is('No, thanks')")
    page.wait_for_selector(OFFER, state="detached")
    enter(page, healthy)
    assert page.locator(OFFER).count() == page.locator(CARD).count() == 0

    page.keyboard.press("Control+k")
    page.keyboard.type("guided")
    page.click("dialog[open] li:has-text('Take the guided tour')")
    page.wait_for_selector(CARD)
    page.click(f"{CARD} button:has-text('Leave the tour')")
    page.wait_for_selector(CARD, state="detached")
    enter(page, healthy)
    assert page.locator(OFFER).count() == page.locator(CARD).count() == 0
    assert json.loads(page.evaluate(KEPT))["stage"] == "left"


def test_viewers_are_offered_none(healthy: Server, page: Any) -> None:
    enter(page, healthy, user="viewer")
    assert page.locator(OFFER).count() == 0


def test_a_rack_is_predicted_and_its_failure_asked_for(healthy: Server, page: Any) -> None:
    enter(page, healthy, user="operator")
    page.click(f"{OFFER} button:text-is('Start the tour')")
    page.wait_for_selector(f"{CARD} h2:text-is('Predict a failure')")
    page.click(f"{CARD} button:text-is('See the prediction')")
    page.wait_for_selector(".answer")
    rack = json.loads(page.evaluate(KEPT))["rack"]
    assert f"racks={rack}" in page.url
    page.wait_for_selector(f"{CARD} h2:text-is('Fail a rack')")
    axe.prepare(page)
    assert axe.violations(page) == []
    page.click(f"{CARD} button:text-is('Fail {rack}…')")
    page.wait_for_selector("dialog[open]")
    assert page.input_value("dialog[open] textarea") == "guided tour"
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector(f"{CARD} h2:text-is('Fail a rack')")


def test_waves_are_watched(broken: Server, page: Any) -> None:
    taken_up(page, broken, "/", after=1)
    page.wait_for_selector(f"{CARD} h2:text-is('Watch the waves')")
    page.wait_for_url("**/incidents/2/")
    assert "3 waves so far" in page.locator(CARD).inner_text()
    page.goto(f"{broken.url}/nodes/")
    page.click(f"{CARD} a:text-is('Watch incident 2')")
    page.wait_for_url("**/incidents/2/")


def test_waves_are_compared_with_blocking(recovered: Server, page: Any) -> None:
    taken_up(page, recovered, "/incidents/2/", incident=2)
    page.wait_for_selector(f"{CARD} h2:text-is('Compare with blocking')")
    page.wait_for_selector(f"{CARD} table:not(:has-text('…'))")
    rows = [row.inner_text().split("\t") for row in page.locator(f"{CARD} tbody tr").all()]
    assert [row[0] for row in rows] == [
        "First query back", "Half of them back", "All back", "A query was down, in the mean",
    ]  # fmt: skip
    assert all(cell not in {"", "–"} for row in rows for cell in row[1:]), rows
    axe.prepare(page)
    assert axe.violations(page) == []
    page.click(f"{CARD} button:text-is('Next')")
    page.wait_for_selector(f"{CARD} h2:text-is('Verify every row')")
    page.click(f"{CARD} button:text-is('Verify the outputs…')")
    page.wait_for_selector("dialog[open] h2:has-text('Verify the outputs of hashtags')")
