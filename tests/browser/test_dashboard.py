"""The dashboard in a real browser, against the real web server over seeded rows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.browser.conftest import Server, enter
from tests.browser.screenshots import addresses, listen

pytestmark = pytest.mark.browser

WITHIN = 1.0
"""Seconds from a committed event to its being visible."""

CHANGE = """async ({path, body}) => {
  const token = /csrftoken=([^;]+)/.exec(document.cookie)[1];
  const headers = {"Content-Type": "application/json", "X-CSRFToken": token};
  const answer = await fetch(path, {method: "PATCH", headers, body: JSON.stringify(body)});
  return answer.status;
}"""

WATCH = """(value) => {
  window.seenAt = null;
  const look = () => {
    const row = [...document.querySelectorAll("tr")].find((row) => row.textContent.includes("O4[0]"));
    const shown = row?.querySelector(".priority")?.textContent.trim();
    if (shown === value) window.seenAt = performance.timeOrigin + performance.now();
    else requestAnimationFrame(look);
  };
  look();
}"""


def test_no_page_complains_or_asks_another_server(healthy: Server, page: Any) -> None:
    complaints: list[str] = []
    foreign: list[str] = []
    listen(page, complaints)

    def asked(request: Any) -> None:
        if not request.url.startswith((healthy.url, "data:", "blob:")):
            foreign.append(request.url)

    page.on("request", asked)
    enter(page, healthy)
    for path in addresses(page.request.get(f"{healthy.url}/api/v1/snapshot/").json()).values():
        page.goto(healthy.url + path)
        page.wait_for_selector("main:not(:has(.skeleton))")
        page.wait_for_timeout(300)
    assert (complaints, foreign) == ([], [])


def test_an_event_is_visible_within_a_second(broken: Server, page: Any, browser: Any) -> None:
    enter(page, broken, "/topologies/hashtags/")
    other = browser.new_context().new_page()
    enter(other, broken)
    delays = []
    for value in (7, 3, 8, 2, 6):
        page.evaluate(WATCH, str(value))
        asked = time.time()
        body = {"priority": value, "reason": "measuring"}
        path = "/api/v1/topologies/hashtags/queries/O4%5B0%5D/"
        assert other.evaluate(CHANGE, {"path": path, "body": body}) == 200
        page.wait_for_function("() => window.seenAt !== null")
        # From before the request was even sent: an upper bound of the time since the commit.
        delays.append(page.evaluate("() => window.seenAt") / 1000 - asked)
    assert max(delays) < WITHIN, delays


def test_a_restarted_server_is_found_again(broken: Server, page: Any, browser: Any) -> None:
    enter(page, broken, "/topologies/hashtags/")
    broken.stop()
    page.wait_for_selector("text=Reconnecting")
    assert page.locator("text=last known state").count() == 1
    broken.start()
    other = browser.new_context().new_page()
    enter(other, broken)
    body = {"priority": 9, "reason": "while the first browser was away"}
    path = "/api/v1/topologies/hashtags/queries/O5%5B0%5D/"
    assert other.evaluate(CHANGE, {"path": path, "body": body}) == 200
    page.wait_for_selector(".freshness.good", timeout=20_000)
    page.wait_for_selector("tr:has-text('O5[0]') .priority:has-text('9')")


def test_pausing_holds_back_and_resuming_catches_up(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/")
    epoch = page.locator(".stat:has(.label:text-is('Epoch')) .value")
    page.keyboard.press("p")
    held = epoch.inner_text()
    page.wait_for_timeout(2_500)
    assert epoch.inner_text() == held
    assert "waiting" in page.locator(".freshness").inner_text()
    page.keyboard.press("p")
    page.wait_for_function("(held) => !document.body.innerText.includes(held)", arg=held)


def test_selections_are_links(healthy: Server, page: Any) -> None:
    enter(page, healthy)
    page.click("tr:has-text('hashtags') >> td >> nth=0")
    page.wait_for_url("**/topologies/hashtags/")
    page.click(".box:has-text('O14')")
    page.wait_for_selector("aside.panel:has-text('O14[0]')")
    assert "operator=O14" in page.url
    page.click("role=tab[name=/Operators/]")
    page.fill("input[type=search]", "O1")
    page.click("th button:has-text('Busy')")
    address = page.url
    for part in ("operator=O14", "tab=operators", "q=O1", "sort=-busy"):
        assert part in address
    page.goto(address)
    page.wait_for_selector("aside.panel:has-text('O14[0]')")
    assert page.locator("tbody tr").count() == 6  # O1 and O10 to O14
    page.keyboard.press("Escape")
    page.wait_for_selector("aside.panel", state="detached")
    page.go_back()
    page.wait_for_url("**/")


def test_failing_a_node_says_what_is_lost_and_needs_a_reason(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/nodes/")
    page.click("tr:has-text('node-3') button:has-text('Fail node')")
    dialog = page.locator("dialog[open]")
    assert "partitions will be lost" in dialog.inner_text()
    assert "queries will stop" in dialog.inner_text()
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    dialog.locator("button[type=submit]").click()
    assert dialog.locator("[role=alert]").inner_text() == "Say why in a few words."
    assert sent == []
    dialog.locator("textarea").fill("a drill")
    dialog.locator("button[type=submit]").click()
    page.wait_for_selector(".notice:has-text('Fail node-3')")
    assert len(sent) == 1
    assert sent[0].url.endswith("/api/v1/nodes/node-3/fail/")
    assert sent[0].headers["idempotency-key"]
    operations = page.request.get(f"{healthy.url}/api/v1/operations/?kind=node.fail").json()["results"]
    assert [(one["target"], one["reason"]) for one in operations] == [("node-3", "a drill")]


def test_a_disabled_button_says_why(broken: Server, page: Any) -> None:
    enter(page, broken, "/topologies/hashtags/")
    button = page.locator("button:has-text('Recover now')")
    button.hover()
    page.wait_for_selector("text=Incident 2 is already recovering it.")
    button.click(force=True)
    assert page.locator("dialog[open]").count() == 0


def test_the_keyboard_goes_everywhere(healthy: Server, page: Any) -> None:
    enter(page, healthy)
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**/nodes/")
    page.keyboard.press("Control+k")
    page.keyboard.type("trending")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topologies/trending/")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]:has-text('Keyboard')")
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.wait_for_url("**/topologies/trending/?kiosk=1")
    assert not page.locator("header nav").is_visible()


@pytest.mark.parametrize("path", ["/", "/topologies/hashtags/", "/nodes/", "/incidents/", "/incidents/2/"])
def test_a_phone_never_scrolls_sideways(broken: Server, browser: Any, path: str) -> None:
    page = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True).new_page()
    enter(page, broken, path)
    page.wait_for_timeout(300)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.context.close()


def test_what_does_not_exist_is_said(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/nowhere/")
    page.wait_for_selector("text=There is no topology named nowhere")
    page.goto(f"{healthy.url}/incidents/77/")
    page.wait_for_selector("text=There is no incident 77")
    page.goto(f"{healthy.url}/?q=zzz")
    page.wait_for_selector("text=No topology matches this filter")
