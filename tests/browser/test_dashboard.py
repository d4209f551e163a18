"""The pages in a real browser, against the real web server with seeded rows: navigation and actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from harness.chromium import sign_in
from tests.browser.asking import audited, confirm, read, refuses, requests_of, set_priority
from tests.browser.conftest import enter
from tests.browser.serve import PASSWORD
from tests.browser.servers import Server
from tests.browser.tour import SETTLED, Stop, visit

pytestmark = pytest.mark.browser


def test_a_user_signs_in_and_out(healthy: Server, page: Any) -> None:
    page.goto(f"{healthy.url}/nodes/")
    assert "Sign in to go on to /nodes/" in page.locator("main").inner_text()
    sign_in(page, healthy.url, "viewer", PASSWORD)
    page.click("summary[title='viewer, viewer']")
    page.click("text=Sign out")
    page.wait_for_url("**/login/**")


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
    assert page.locator("section[aria-label=Details] tbody tr").count() == 6  # O1 and O10 to O14
    page.keyboard.press("Escape")
    page.wait_for_selector("aside.panel", state="detached")
    page.go_back()
    page.wait_for_url("**/")


def test_operators_tell_their_part_of_the_newest_checkpoint(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/?tab=operators")
    row = page.locator("section[aria-label=Details] tr:has(button:text-is('Parser'))")
    cells = row.locator("td").all_inner_texts()
    assert cells[2].startswith("4/4")
    page.wait_for_function("""() => /ago.*, \\d.*B/.test(
        [...document.querySelectorAll("section[aria-label=Details] tbody tr")].at(-1).innerText)""")


def test_charts_show_the_time_that_is_chosen(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/?tab=charts")
    details = page.locator("section[aria-label=Details]")
    chart = details.locator("figure[aria-label='Input per second over time']")
    chart.wait_for()
    assert "Each point is the mean of 10 s." in details.inner_text()
    details.get_by_label("Time range").select_option("7d")
    page.wait_for_selector("section[aria-label=Details] .note:has-text('mean of 10 min')")
    assert "range=7d" in page.url
    chart.scroll_into_view_if_needed()
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile(r"range=\d+-\d+"))
    begin, end = map(int, re.findall(r"range=(\d+)-(\d+)", page.url)[0])
    assert 0.04 * 7 * 86_400 < end - begin < 0.06 * 7 * 86_400
    page.go_back()
    page.wait_for_url("**range=7d")
    page.go_forward()
    details.locator("button.chosen").click()
    page.wait_for_selector("section[aria-label=Details] .note:has-text('mean of 10 s')")
    assert "range=" not in page.url
    details.get_by_label("Time range").select_option("between")
    details.get_by_label("To", exact=True).fill("2020-01-01T00:00:00")
    assert details.get_by_role("button", name="Show").is_disabled()


def test_failing_a_node_says_what_is_lost_and_needs_a_reason(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/nodes/")
    page.click("tr:has-text('node-3') button:has-text('Fail node')")
    dialog = page.locator("dialog[open]")
    assert "partitions will be lost" in dialog.inner_text()
    assert "queries will stop" in dialog.inner_text()
    sent = requests_of(page, "POST")
    dialog.locator("button[type=submit]").click()
    assert dialog.locator("[role=alert]").inner_text() == "Give a reason of at least three letters."
    assert sent == []
    confirm(page, "a drill")
    page.wait_for_selector(".notice:has-text('Fail node-3')")
    assert len(sent) == 1
    assert sent[0].url.endswith("/api/v1/nodes/node-3/fail/")
    assert sent[0].headers["idempotency-key"]
    operations = read(page, healthy, "operations/?kind=node.fail&requested_by=admin")["results"]
    assert [(one["target"], one["reason"]) for one in operations] == [("node-3", "a drill")]


def test_several_nodes_fail_at_once(spare: Server, page: Any) -> None:
    enter(page, spare, user="operator")
    for key in "gx":
        page.keyboard.press(key)
    page.wait_for_url("**/faults/")
    refuses(page, page.locator("main button:has-text('Fail')").last, "Choose at least one node.")
    page.check("label:has-text('rack-b') input >> nth=0")
    page.wait_for_selector("section[aria-label='What would be lost']:has-text('waves (incremental)')")
    assert "racks=rack-b" in page.url
    assert "racks=rack-b" in page.locator("a:has-text('Predict the recovery first')").get_attribute("href")
    sent = requests_of(page, "POST")
    page.click("button:text-is('Fail 4 nodes…')")
    told = page.locator("dialog[open]").inner_text()
    for name in ("node-2", "node-4", "node-6", "node-8"):
        assert name in told
    confirm(page, "a rack without power")
    page.wait_for_selector(".notice:has-text('Fail 4 nodes')")
    assert sorted(request.url.split("/")[-3] for request in sent) == ["node-2", "node-4", "node-6", "node-8"]
    assert len({request.headers["idempotency-key"] for request in sent}) == 4
    page.wait_for_selector("section[aria-label='Experiments so far'] tr:has-text('a rack without power')")
    operations = read(page, spare, "operations/?kind=node.fail&requested_by=operator")
    assert operations["count"] == 4


def test_a_topology_is_paused_and_undeployed_with_a_reason(spare: Server, page: Any) -> None:
    enter(page, spare, "/topologies/hashtags/")
    sent = requests_of(page, "POST")
    page.click("main button:text-is('Pause')")
    assert "Reads no new input" in page.locator("dialog[open]").inner_text()
    confirm(page, "the source moves")
    page.wait_for_selector(".notice:has-text('Pause hashtags')")
    page.click("main button:text-is('Undeploy')")
    assert "15 queries stop" in page.locator("dialog[open]").inner_text()
    confirm(page, "replaced by the new one")
    page.wait_for_selector("main :text('Stopping')")
    assert [request.url.split("/")[-2] for request in sent] == ["pause", "undeploy"]
    page.goto(f"{spare.url}/topologies/mentions/")
    page.click("main button:text-is('Deploy')")
    told = page.locator("dialog[open]").inner_text()
    assert "without state" in told
    assert "has run to the end of its input" in told


def test_nodes_are_evened_out_and_drained_without_an_interruption(spare: Server, page: Any) -> None:
    enter(page, spare, "/topologies/hashtags/")
    sent = requests_of(page, "POST")
    page.click("main button:text-is('Rebalance partitions')")
    dialog = page.locator("dialog[open]")
    assert "8 nodes are alive" in dialog.inner_text()
    assert "no query stops" in dialog.inner_text()
    confirm(page, "two nodes are new")
    page.wait_for_selector(".notice:has-text('Rebalance the partitions of hashtags')")
    assert [request.url.split("/")[-2] for request in sent] == ["rebalance"]
    page.goto(f"{spare.url}/nodes/")
    page.click("main tr:has(button:text-is('node-5')) button:has-text('Drain')")
    assert "move with their state" in dialog.inner_text()
    assert "No query goes back to a checkpoint" in dialog.inner_text()
    assert "pause" not in dialog.inner_text()
    page.keyboard.press("Escape")
    page.goto(f"{spare.url}/topologies/mentions/")
    page.keyboard.press("Control+k")
    page.keyboard.type("rebalance")
    page.wait_for_selector("dialog[open] li:has-text('Rebalance the partitions of trending')")
    assert page.locator("dialog[open] li:has-text('nodes of mentions')").count() == 0


def test_the_server_says_what_is_permitted(broken: Server, page: Any) -> None:
    enter(page, broken, "/topologies/hashtags/")
    page.click("main button:text-is('Recover now')")
    assert "Incident 2 is recovering it already" in page.locator("dialog[open]").inner_text()
    page.keyboard.press("Escape")
    visit(page, Stop("nodes", "/nodes/"))
    lost = page.locator("tr:has(button:text-is('node-2')) button:has-text('Forget')")
    refuses(page, lost, "What ran on it is not replaced yet.")
    leave = page.locator("tr:has(button:text-is('node-5')) button:has-text('Drain')")
    leave.click()
    page.wait_for_selector("dialog[open] h2:text-is('Drain node-5')")


def test_ctrl_enter_confirms(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/")
    sent = requests_of(page, "POST")
    page.click("main button:text-is('Take checkpoint')")
    page.wait_for_selector("dialog[open] textarea:focus")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("dialog[open] .error")
    assert sent == [], "without a reason nothing is sent"
    page.keyboard.type("before the upgrade")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".notice:has-text('Take a checkpoint of hashtags')")
    assert len(sent) == 1


def test_edits_are_among_the_activity(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/")
    set_priority(page, "O6[0]", 9, reason="revenue first")
    page.wait_for_selector(
        "section[aria-label=Activity] li:has-text('Priority changed'):has-text('revenue first')"
    )


def test_a_row_keeps_its_buttons_in_sight(broken: Server, page: Any) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    enter(page, broken, "/nodes/")
    button = page.locator("tr:has(button:text-is('node-5')) button:has-text('Fail node')")
    box = button.bounding_box()
    table = page.locator("section[aria-label='All nodes'] .wrap").bounding_box()
    assert box["x"] + box["width"] <= table["x"] + table["width"]


def test_a_node_that_was_replaced_is_history(recovered: Server, page: Any) -> None:
    enter(page, recovered)
    assert "none lost" in page.locator(".stat:has-text('Nodes alive')").inner_text()
    tiles = page.locator("section[aria-label='Nodes by rack'] .tile")
    assert tiles.count()
    assert page.locator(".tile:has-text('Lost')").count() == 0
    page.goto(f"{recovered.url}/nodes/")
    rows = page.locator("section[aria-label='All nodes'] tbody tr")
    rows.first.wait_for()
    states = [row.locator("td").first.inner_text() for row in rows.all()]
    gone = states.count("Lost, replaced")
    assert gone
    assert states[-gone:] == ["Lost, replaced"] * gone, "they come last"
    last = rows.last.locator("td >> nth=1").locator("button").inner_text()
    rows.last.locator("button:has-text('Forget')").click()
    confirm(page, "replaced last night")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.wait_for_selector(f"tr:has(button:text-is('{last}'))", state="detached")
    assert ("admin", "replaced last night") in audited(page, recovered, "node.forget")


def test_the_keyboard_goes_everywhere(healthy: Server, page: Any) -> None:
    enter(page, healthy)
    for letter, path in {"n": "nodes", "i": "incidents", "c": "checkpoints", "w": "what-if", "x": "faults",
                         "a": "audit", "s": "settings"}.items():  # fmt: skip
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(f"**/{path}/")
        assert page.locator("nav > a[aria-current=page]").count() == 1
    page.keyboard.press("Control+k")
    page.keyboard.type("trending")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topologies/trending/")
    page.wait_for_selector("h1:text-is('trending')")  # the page before has gone, with its palette
    page.keyboard.press("Control+k")
    page.keyboard.type("drain node-5")
    page.wait_for_selector("dialog[open] li:has-text('Drain node-5')")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] h2:text-is('Drain node-5')")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("api tokens")
    page.keyboard.press("Enter")
    page.wait_for_url("**/settings/?tab=tokens")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]:has-text('Keyboard'):has-text('Checkpoints')")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_a_wall_display_walks_by_itself(broken: Server, new_page: Callable[..., Any]) -> None:
    page = new_page()
    page.clock.install()
    enter(page, broken, "/?kiosk=8")
    assert not page.locator("header nav").is_visible()
    seen = []
    for _ in range(4):
        page.clock.run_for(8_000)
        page.wait_for_selector(SETTLED)
        seen.append(page.evaluate("() => location.pathname"))
        assert "kiosk=8" in page.url
    assert seen == ["/incidents/2/", "/topologies/hashtags/", "/topologies/trending/", "/"]
    page.keyboard.press("k")
    page.wait_for_selector("header nav")


def test_what_does_not_exist_is_said(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/nowhere/")
    page.wait_for_selector("text=No topology is named nowhere")
    for path, text in {
        "/incidents/77/": "No incident has the number 77",
        "/?q=zzz": "No topology matches this filter",
        "/checkpoints/?q=zzz": "No checkpoint matches this filter",
        "/audit/?q=zzz": "No entry matches this filter",
        "/audit/?page=99": "There is no page 99",
        "/topologies/hashtags/?tab=errors": "No errors",
    }.items():
        visit(page, Stop("x", path))
        page.wait_for_selector(f"text={text}")


CREATE = """async (spec) => {
    const { csrfToken } = JSON.parse(document.getElementById("boot").textContent);
    const headers = { "Content-Type": "application/json", "X-CSRFToken": csrfToken };
    const body = JSON.stringify({ spec, reason: "try it" });
    const answer = await fetch("/api/v1/topologies/", { method: "POST", headers, body });
    return [answer.status, await answer.text()];
}"""


def test_what_is_not_known_to_be_deterministic_is_stated(spare: Server, page: Any) -> None:
    reading = {"inputs": [{"from": "S"}], "output": True, "kind": "sql"}
    drawn = {"query": "SELECT *, random() AS drawn FROM input"}
    spec = {
        "name": "doubtful",
        "operators": [
            {"name": "S", "kind": "source", "params": {"reader": "file", "rate": 100}},
            {"name": "Drawn", "params": drawn, **reading},
            {"name": "Said", "params": drawn, "deterministic": True, **reading},
        ],
    }
    enter(page, spare, user="operator")
    status, answer = page.evaluate(CREATE, spec)
    assert status == 201, answer
    for operator, told in (
        ("Drawn", "Taken for not deterministic: random()"),
        ("Said", "Its author says that it is deterministic. This is not checked: random()"),
    ):
        page.goto(f"{spare.url}/topologies/doubtful/?operator={operator}")
        page.wait_for_selector(f"aside.panel:has-text({told!r})")
