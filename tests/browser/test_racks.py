"""Draining a rack from the page, and what an open page says when dialogs are of another version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.asking import audited, confirm, read, requests_of
from tests.browser.conftest import enter
from tests.browser.servers import Server

pytestmark = pytest.mark.browser


def test_a_rack_is_drained_and_activated(spare: Server, page: Any) -> None:
    enter(page, spare, "/nodes/", user="operator")
    rack = read(page, spare, "nodes/node-3/")["rack"]
    outlook = read(page, spare, f"racks/{rack}/")
    assert len(outlook["leaving"]) > 1
    alone = audited(page, spare, "node.drained")
    sent = requests_of(page, "POST")
    page.click(f"main button:text-is('Drain {rack}')")
    dialog = page.locator("dialog[open]")
    dialog.wait_for()
    told = dialog.inner_text()
    for name in (*outlook["leaving"], *(move["partition"] for move in outlook["moves"])):
        assert name in told
    stuck = [move for move in outlook["moves"] if not move["fits"]]
    assert ("no room elsewhere" in told) == bool(stuck)
    assert ("All of them fit" in told) == (not stuck)
    confirm(page, "a new switch")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    for name in outlook["leaving"]:
        row = f"section[aria-label='All nodes'] tr:has(button:text-is('{name}'))"
        page.wait_for_selector(f"{row} :text('Draining')")
    assert [request.url.split("/")[-3:-1] for request in sent] == [[rack, "drain"]]
    page.click(".notice button")
    page.click(f"main button:text-is('Activate {rack}')")
    assert outlook["leaving"][0] in dialog.inner_text()
    confirm(page, "the switch is new")
    page.wait_for_selector(f"main button:text-is('Drain {rack}'):not([aria-disabled])")
    assert audited(page, spare, "rack.drain")[0] == ("operator", "a new switch")
    assert audited(page, spare, "rack.activate")[0] == ("operator", "the switch is new")
    assert audited(page, spare, "rack.drained") != []
    assert audited(page, spare, "node.drained") == alone


def test_a_viewer_drains_no_rack(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/nodes/", user="viewer")
    button = page.locator("main button:has-text('Drain rack-')").first
    assert button.get_attribute("aria-disabled") == "true"


def test_a_dialog_that_cannot_be_loaded_says_so(healthy: Server, page: Any) -> None:
    """The server got another version while the page was open: the file of the dialog has another name."""
    enter(page, healthy, "/nodes/")
    page.route("**/ActionDialog-*", lambda route: route.fulfill(status=404))
    page.locator("section[aria-label='All nodes'] button:text-is('Drain')").first.click()
    page.wait_for_selector("[role=alert]:has-text('nothing was done')")
    page.unroute("**/ActionDialog-*")
    page.click("button:text-is('Reload')")
    page.wait_for_selector(".freshness.good")
    page.locator("section[aria-label='All nodes'] button:text-is('Drain')").first.click()
    page.wait_for_selector("dialog[open] textarea:focus")
