"""Live updates: events within a second, restarted servers and sockets, two browsers."""

from __future__ import annotations

import gzip
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.assets import BUILT
from tests.browser.asking import audited, confirm, read, refuses, set_priority
from tests.browser.conftest import enter
from tests.browser.servers import Server

pytestmark = pytest.mark.browser

WITHIN = 1.0
"""Seconds from a committed event to its being visible."""

MOST = 250_000
"""Bytes on the wire for a first visit to a page."""

TOPOLOGY = "/topologies/hashtags/"
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


TIME_LEFT = r"\n(in about .+|at any moment|expected .+ ago)$"


def table(page: Any) -> list[list[str]]:
    """The present rows of the queries table, cell by cell, without the time left: each browser counts it down
    by its own clock."""
    rows = page.locator("section[aria-label=Details] tbody tr").all()
    return [[re.sub(TIME_LEFT, "", cell) for cell in row.locator("td").all_inner_texts()] for row in rows]


def test_an_event_is_visible_within_a_second(broken: Server, new_page: Callable[..., Any]) -> None:
    """The median of five counts, since a busy machine may stop the browser for longer. The page sends no
    request for it."""
    page, other = new_page(), new_page()
    enter(page, broken, TOPOLOGY)
    enter(other, broken)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    delays = []
    for value in (7, 3, 8, 2, 6):
        page.evaluate(WATCH, str(value))
        asked = time.time()
        set_priority(other, "O4[0]", value)
        page.wait_for_function("() => window.seenAt !== null")
        # From before the request was even sent: an upper bound of the time since the commit.
        delays.append(page.evaluate("() => window.seenAt") / 1000 - asked)
    assert statistics.median(delays) < WITHIN, delays
    assert requests == []


def test_a_page_asks_for_the_state_once(broken: Server, new_page: Callable[..., Any]) -> None:
    """The document requests the snapshot while the app is being loaded, and the app does not request it
    again."""
    page = new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    enter(page, broken, TOPOLOGY)
    assert page.locator("h1").inner_text() == "hashtags"
    asked.clear()
    page.reload()
    page.wait_for_selector("section[aria-label=Details] tbody tr")
    snapshots = [number for number, url in enumerate(asked) if url.endswith("/api/v1/snapshot/")]
    scripts = [number for number, url in enumerate(asked) if "/dashboard/app-" in url]
    assert len(snapshots) == len(scripts) == 1, asked
    assert snapshots < scripts, "it does not wait for the app"


@pytest.mark.parametrize(
    ("path", "ready"),
    [
        ("/", ".freshness.good"),
        (TOPOLOGY, ".graph .box"),
        ("/topologies/hashtags/queries/O4[0]/", "section[aria-label=Verification]"),
        ("/nodes/", "section[aria-label='All nodes'] tbody tr"),
        ("/incidents/", "main h1"),
        ("/incidents/2/", "main h1"),
        ("/checkpoints/", "section[aria-label=History] tbody tr"),
        ("/what-if/", "main h1"),
        ("/faults/", "main h1"),
        ("/audit/", "section[aria-label=Trail] tbody tr"),
        ("/settings/", "main h1"),
    ],
)
def test_a_first_visit_loads_little(
    broken: Server, new_page: Callable[..., Any], path: str, ready: str
) -> None:
    page = new_page()
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    taken: list[float] = []
    wire.on("Network.loadingFinished", lambda event: taken.append(event["encodedDataLength"]))
    enter(page, broken, path)
    page.wait_for_selector(ready)
    page.wait_for_load_state("networkidle")
    assert len(taken) > 5
    # The browser does not tell of what workers load.
    workers = len(page.workers) * len(gzip.compress((BUILT / "layout.js").read_bytes()))
    assert sum(taken) + workers < MOST, [workers, *map(round, taken)]


def test_a_page_whose_code_cannot_be_loaded_says_so(broken: Server, page: Any) -> None:
    enter(page, broken)
    page.route("**/AuditPage-*", lambda route: route.abort())
    page.click("nav a:text-is('Audit')")
    page.wait_for_selector("h1:text-is('The page could not be loaded')")
    page.unroute("**/AuditPage-*")
    page.click("main button:text-is('Reload')")
    page.wait_for_selector("section[aria-label=Trail] tbody tr")


class Wire:
    """The websockets of a page, which a test may cut while the server lives."""

    def __init__(self, page: Any) -> None:
        self.dead = False
        self.open: list[Any] = []
        page.route_web_socket("**/ws/v1/", self._connect)

    def _connect(self, socket: Any) -> None:
        if self.dead:
            socket.close(code=1012)
            return
        socket.connect_to_server()
        self.open.append(socket)

    def cut(self) -> None:
        self.dead = True
        while self.open:
            self.open.pop().close(code=1012)


def test_a_cut_socket_loses_nothing_and_two_browsers_see_the_same(
    broken: Server, new_page: Callable[..., Any]
) -> None:
    page, other = new_page(), new_page()
    wire = Wire(page)
    enter(page, broken, TOPOLOGY)
    enter(other, broken, TOPOLOGY)
    assert table(page) == table(other)
    before = table(page)
    wire.cut()
    page.wait_for_selector("text=Reconnecting")
    assert page.locator("text=last known state").count() == 1
    for value in range(2, 9):
        set_priority(other, f"O{value}[0]", 1 + value % 10, reason="while the first browser heard nothing")
    other.wait_for_selector("tr:has-text('O8[0]') .priority:text-is('9')")
    assert table(page) == before, "no event can have arrived"
    wire.dead = False
    page.click(".freshness button >> nth=0")
    page.wait_for_selector(".freshness.good")
    page.wait_for_selector("tr:has-text('O8[0]') .priority:text-is('9')")
    fresh = new_page()
    enter(fresh, broken, TOPOLOGY)
    assert table(page) == table(other) == table(fresh) != before


def test_a_restarted_server_is_found_again(broken: Server, new_page: Callable[..., Any]) -> None:
    page, other = new_page(), new_page()
    enter(page, broken, TOPOLOGY)
    broken.stop()
    page.wait_for_selector("text=Reconnecting")
    button = page.locator("main button:has-text('Pause')").first
    button.hover()
    page.wait_for_selector(".why.shown:has-text('Not connected')")
    broken.start()
    enter(other, broken)
    set_priority(other, "O5[0]", 9)
    page.wait_for_selector(".freshness.good", timeout=30_000)
    page.wait_for_selector("tr:has-text('O5[0]') .priority:has-text('9')")


def test_a_connection_that_is_half_open_stops_all_actions(broken: Server, page: Any) -> None:
    enter(page, broken, TOPOLOGY)
    page.click("main button:text-is('Recover now')")
    dialog = page.locator("dialog[open]")
    dialog.locator("button[type=submit]").wait_for()
    broken.freeze()
    try:
        notice = page.locator("aside.outdated:has-text('last known state'):has-text('Actions are off')")
        notice.wait_for()
        dialog.locator("button[type=submit][aria-disabled=true]").wait_for()
        assert "Actions are possible again when it is connected" in dialog.inner_text()
        page.keyboard.press("Escape")
        refuses(page, page.locator("main button:text-is('Take checkpoint')"), "may be out of date")
        page.wait_for_selector("text=Reconnecting")
        refuses(page, page.locator("main button:text-is('Take checkpoint')"), "Not connected")
    finally:
        broken.thaw()
    notice.wait_for(state="detached")
    page.wait_for_selector(".freshness.good")
    page.wait_for_selector("main button:text-is('Recover now'):not([aria-disabled])")


def test_pausing_holds_back_and_resuming_catches_up(healthy: Server, page: Any) -> None:
    enter(page, healthy, TOPOLOGY)
    epoch = page.locator(".stat:has(.label:text-is('Epoch')) .value")
    page.keyboard.press("p")
    held = epoch.inner_text()
    # Two events of this topology and one of the nodes have arrived and wait.
    page.wait_for_function(
        "() => Number(/(\\d+) waiting/.exec(document.querySelector('.freshness').innerText)?.[1]) > 4"
    )
    assert epoch.inner_text() == held
    page.keyboard.press("p")
    page.wait_for_function("(held) => !document.body.innerText.includes(held)", arg=held)


def test_a_node_is_drained_and_activated(spare: Server, new_page: Callable[..., Any]) -> None:
    """One operator acts; the page of another shows it."""
    page, other = new_page(), new_page()
    enter(page, spare, "/nodes/", user="operator")
    enter(other, spare, "/nodes/", user="viewer")
    row = "section[aria-label='All nodes'] tr:has(button:text-is('node-3'))"
    hosted = read(page, spare, "nodes/node-3/")["partitions"]
    page.click(f"{row} button:has-text('Drain')")
    told = page.locator("dialog[open]").inner_text()
    for partition in hosted:
        assert partition["partition"] in told
    assert "with their state" in told
    assert "to a checkpoint. 20 queries have higher latencies for about one epoch" in told
    assert "the other 7 nodes have" in told
    confirm(page, "new kernel")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    for one in (page, other):
        one.wait_for_selector(f"{row} :text('Draining')")
    # The partitions of the node move; an incident shows that.
    other.wait_for_selector(".notice:has-text('Incident 2')")
    page.click(".notice button")
    page.click(f"{row} button:has-text('Activate')")
    assert "can be planned" in page.locator("dialog[open]").inner_text()
    confirm(page, "updated")
    for one in (page, other):
        one.wait_for_selector(f"{row} :text('Alive')")
    assert audited(page, spare, "node.drain")[0] == ("operator", "new kernel")
    assert audited(page, spare, "node.activate")[0] == ("operator", "updated")
