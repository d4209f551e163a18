"""Checkpoints, audit, settings and tokens in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from host.environment import ROOT
from tests.browser.asking import audited, confirm, read, requests_of, sideways
from tests.browser.axe import prepare, violations
from tests.browser.conftest import enter
from tests.browser.results import outputs_write
from tests.browser.servers import Server
from tests.browser.tour import PARTS, Stop, visit
from workers.launcher.operation_processes import SAVEPOINT, VERIFY

pytestmark = pytest.mark.browser

HISTORY = "section[aria-label=History] > .wrap > table > tbody > tr:not(.detail)"
TRAIL = "section[aria-label=Trail] tbody tr:not(.detail)"


def test_checkpoints_are_counted_filtered_and_unfolded(broken: Server, page: Any) -> None:
    enter(page, broken, "/checkpoints/")
    rows = list(read(page, broken, "snapshot/")["entities"]["checkpoint"].values())
    failed = [row for row in rows if row["state"] == "failed"]
    strip = page.locator(".strip").inner_text().replace("\n", " ")
    assert f"Failed {len(failed)}" in strip
    assert page.locator(HISTORY).count() == len(rows)
    page.select_option("select[aria-label=State]", "failed")
    page.select_option("select[aria-label=Topology]", "hashtags")
    page.click("section[aria-label=History] th button:text-is('Duration')")
    for part in ("state=failed", "topology=hashtags", "sort=-took"):
        assert part in page.url
    (one,) = page.locator(HISTORY).all()
    one.locator("button[aria-expanded=false]").click()
    page.wait_for_selector(".details .parts tbody tr")
    detail = read(page, broken, f"topologies/hashtags/checkpoints/{failed[0]['epoch']}/")
    parts = page.locator(".details .parts tbody tr")
    assert parts.count() == len(detail["acknowledgements"]) + len(detail["missing"])
    assert "No space left on device" in parts.nth(0).inner_text()
    assert page.locator(".parts :text('No answer')").count() == len(detail["missing"]) == 3
    # The link alone shows the same, and brings it into view.
    page.goto(page.url)
    page.wait_for_selector(".details .parts tbody tr")
    assert page.locator("tr.selected").is_visible()


def test_savepoints_are_made_and_deleted(spare: Server, page: Any) -> None:
    """By the process that the launcher starts; here it finds no checkpoint in storage, and says so."""
    enter(page, spare, "/checkpoints/")
    rows = page.locator("section[aria-label=Savepoints] tbody tr")
    page.wait_for_selector("section[aria-label=Savepoints] tbody tr")
    assert rows.count() == 2
    prepare(page)
    assert violations(page) == []
    row = page.locator("section[aria-label=Savepoints] tbody tr:has-text('trending-friday')")
    assert "no room is left" in row.inner_text()
    row.locator("button").click()
    confirm(page, "it has failed")
    row.wait_for(state="detached")
    page.click(
        "section[aria-label=History] tbody tr:has-text('in storage') button[aria-expanded=false] >> nth=0"
    )
    page.click(".details button:text-is('Savepoint…')")
    page.fill("dialog[open] input[name=name]", "by-hand")
    confirm(page, "before the change")
    made = page.locator("section[aria-label=Savepoints] tbody tr:has-text('by-hand')")
    made.locator(":text('Being made')").wait_for()
    (asked,) = read(page, spare, "operations/?kind=topology.savepoint")["results"]
    command = SAVEPOINT.command(asked["id"])
    subprocess.run(command, env=spare.environment(), cwd=ROOT, capture_output=True, check=True)
    made.locator(":text('Failed')").wait_for()
    assert "is missing" in made.inner_text() or "holds nothing" in made.inner_text()


STOP = """
from controlplane.events.choices import Channel
from controlplane.lifecycle.topologies import topology_undeploy
from controlplane.topologies.telemetry import topology_stopped

topology_undeploy(name="hashtags", actor="kim", reason="version 2", channel=Channel.CLI)
topology_stopped(name="hashtags")
"""


def test_deploying_asks_where_to_begin(spare: Server, page: Any) -> None:
    enter(page, spare, "/topologies/hashtags/")
    command = [sys.executable, "manage.py", "shell", "-c", STOP]
    subprocess.run(command, env=spare.environment(), cwd=ROOT, capture_output=True, check=True)
    page.click("main button:text-is('Deploy')")
    options = page.locator("dialog[open] .option")
    options.nth(0).wait_for()
    assert [one.split()[:2] for one in options.all_inner_texts()] == [
        ["From", "the"],
        ["With", "savepoint"],
        ["With", "its"],
    ]
    prepare(page)
    assert violations(page) == []
    sent = requests_of(page, "POST")
    options.nth(1).click()
    confirm(page, "version 2 was wrong")
    page.wait_for_selector("dialog[open]", state="detached")
    assert json.loads(sent[0].post_data) == {
        "start": "savepoint", "savepoint": "before-v2", "reason": "version 2 was wrong",
    }  # fmt: skip


def test_a_link_to_a_checkpoint_that_is_not_followed_any_more(healthy: Server, page: Any) -> None:
    """The page follows the newest 400; the server has the rest."""

    def without(route: Any) -> None:
        answer = route.fetch()
        state = answer.json()
        del state["entities"]["checkpoint"]["trending/5220"]
        route.fulfill(response=answer, json=state)

    enter(page, healthy)
    page.route("**/api/v1/snapshot/", without)
    page.goto(f"{healthy.url}/checkpoints/?checkpoint=trending/5220")
    page.wait_for_selector("tr.selected:has-text('5,220')")
    page.wait_for_selector(PARTS)
    page.goto(f"{healthy.url}/checkpoints/?checkpoint=trending/99999")
    page.wait_for_selector("section[aria-label=History] .older[role=alert]")


def test_checkpoints_of_one_topology_and_asking_for_one(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/trending/?tab=checkpoints")
    assert "Newest complete" in page.locator("section[aria-label=Details]").inner_text()
    sent = requests_of(page, "POST")
    page.click("text=All topologies")
    page.click("tr:has(a:text-is('trending')) button:text-is('Take checkpoint')")
    confirm(page, "before the update")
    page.wait_for_selector(".notice:has-text('Take a checkpoint of trending')")
    assert [request.url.split("/api/v1/")[1] for request in sent] == ["topologies/trending/checkpoint/"]


def test_a_node_shows_its_cpu_measured_and_expected(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/nodes/", user="viewer")
    page.click("section[aria-label='All nodes'] button:text-is('node-5')")
    page.wait_for_selector("tr.detail figure[aria-label='CPU in cores over time'] canvas")
    assert "node=node-5" in page.url
    node = read(page, healthy, "nodes/node-5/")
    told = page.locator("tr.detail").inner_text().replace("\n", " ")
    assert "Throttled by its quota 62 %" in told
    assert f"Expected at the normal pace {node['predicted_percent'] / 100:.2f}".rstrip("0") in told
    # The link alone shows the same.
    page.goto(page.url)
    page.wait_for_selector("tr.detail figure[aria-label='CPU in cores over time'] canvas")
    page.click("section[aria-label='All nodes'] button:text-is('node-5')")
    page.wait_for_selector("tr.detail", state="detached")


def test_the_results_of_a_query_are_drawn_and_paged(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/", user="viewer")
    page.click("a[aria-label='Results of O4[0]']")
    page.wait_for_selector(":text('are not where this server reads them')")
    outputs_write(healthy.home, "hashtags", "O4", windows=30)
    page.click("button:text-is('Try again')")
    page.wait_for_selector("section[aria-label=Windows] canvas")
    rows = page.locator("section[aria-label=Rows] tbody tr")
    assert rows.count() == 50
    assert rows.nth(0).inner_text().split("\t")[1:] == ["a", "120", "final"]
    prepare(page)
    assert violations(page) == []
    page.click("nav[aria-label='Pages of rows'] button:text-is('Next')")
    page.wait_for_selector(":text('rows 51 to 100')")
    page.click("nav[aria-label='Pages of rows'] button:text-is('Next')")
    page.wait_for_selector(":text('rows 101 to 120')")
    assert rows.nth(19).inner_text().split("\t")[1:] == ["d", "1", "final"]
    page.click("nav[aria-label='Pages of rows'] button:text-is('Newest')")
    page.wait_for_selector(":text('rows 1 to 50')")
    page.goto(page.url)
    page.wait_for_selector("section[aria-label=Windows] canvas")


def test_outputs_are_verified_on_request(spare: Server, page: Any) -> None:
    """By the process that the launcher starts; here it finds that nothing can be compared, and says why."""
    enter(page, spare, "/topologies/hashtags/queries/O4[0]/")
    card = page.locator("section[aria-label=Verification]")
    assert "Not verified yet" in card.inner_text()
    card.locator("button").click()
    assert "15 queries, up to epoch" in page.locator("dialog[open]").inner_text()
    confirm(page, "before the audit")
    page.wait_for_selector("section[aria-label=Verification] :text('Waiting to start')")
    assert card.locator("button").get_attribute("aria-disabled") == "true"
    prepare(page)
    assert violations(page) == []
    (asked,) = read(page, spare, "operations/?kind=topology.verify")["results"]
    assert (asked["state"], asked["reason"]) == ("pending", "before the audit")
    variables = spare.environment()
    subprocess.run(VERIFY.command(asked["id"]), env=variables, cwd=ROOT, capture_output=True, check=True)
    page.wait_for_selector("section[aria-label=Verification] b:has-text('Not verified')")
    assert "epochs.log" in card.inner_text()
    assert card.locator("button").get_attribute("aria-disabled") is None
    assert violations(page) == []


def test_the_audit_trail_is_searched_paged_and_linked(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/audit/", user="viewer")
    page.wait_for_selector(TRAIL)
    assert page.locator(TRAIL).count() == 50
    page.click("button:text-is('Next')")
    page.wait_for_url("**/audit/?page=2")
    page.wait_for_selector(f"{TRAIL}:has-text('nightly run 1')")
    page.go_back()
    page.select_option("select[aria-label=User]", "ada")
    page.wait_for_function(f"() => document.querySelectorAll({TRAIL!r}).length < 20")
    assert all("ada" in text for text in page.locator(f"{TRAIL} td:nth-child(2)").all_inner_texts())
    page.fill("input[type=search]", "shares count")
    page.wait_for_function(f"() => document.querySelectorAll({TRAIL!r}).length === 1")
    page.click(f"{TRAIL} button[aria-expanded]")
    changed = page.locator("tr.detail tbody tr")
    assert [cell.strip() for cell in changed.locator("th, td").all_inner_texts()] == [
        "planner", "profit_density", "best_density",
    ]  # fmt: skip
    entry = page.url.split("entry=")[1].split("&")[0]
    visit(page, Stop("linked", f"/audit/?channel=cli&entry={entry}"))
    page.wait_for_selector("section[aria-label='Linked entry'] tr.detail:has-text('profit_density')")
    page.goto(f"{healthy.url}/audit/?entry=999999")
    page.wait_for_selector("section[aria-label='Linked entry'] :text('could not be loaded')")


def test_a_token_is_shown_once_works_and_is_revoked(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/settings/?tab=tokens", user="viewer")
    page.wait_for_selector("text=You have no token")
    page.click("button:text-is('Create token')")
    page.wait_for_selector("[role=alert]:has-text('Enter what the token is for, in at least three letters.')")
    page.fill("section[aria-label='New token'] input", "a test of mine")
    page.select_option("section[aria-label='New token'] select", label="7 days")
    page.click("button:text-is('Create token')")
    token = page.locator("code.token").inner_text()
    program = page.context.browser.new_context(extra_http_headers={"Authorization": f"Bearer {token}"})
    me = f"{healthy.url}/api/v1/me/"
    assert program.request.get(me).json() == {"username": "viewer", "role": "viewer"}
    rows = page.locator("section[aria-label='Your tokens'] tbody tr")
    rows.first.wait_for()
    assert re.search(r"in (6 d 23|7 d 0) h", rows.first.inner_text())
    page.reload()
    rows.first.wait_for()
    assert token not in page.content()
    rows.first.locator("button:text-is('Revoke')").click()
    assert "It cannot be restored" in page.locator("dialog[open]").inner_text()
    confirm(page, "the test is over")
    page.wait_for_selector("text=You have no token")
    assert program.request.get(me).status == 401
    program.close()
    assert audited(page, healthy, "token.create")[0] == ("viewer", "a test of mine")
    assert audited(page, healthy, "token.revoke")[0] == ("viewer", "the test is over")


def test_settings_explain_the_values_in_force(broken: Server, page: Any) -> None:
    enter(page, broken, "/settings/", user="viewer")
    page.wait_for_selector("section[aria-label='Detecting failures'] li")
    text = page.locator("main").inner_text()
    settings = read(page, broken, "settings/")
    assert f"From {settings['correlation_threshold']} nodes lost together on" in text
    assert "RESURGE_SESSION_TIMEOUT" in text
    visit(page, Stop("policies", "/settings/?tab=policies"))
    page.click("tr:has-text('hashtags') a:has-text('Change')")
    page.wait_for_url("**/topologies/hashtags/?tab=settings")
    visit(page, Stop("appearance", "/settings/?tab=appearance"))
    page.check("input[name=theme][value=dark]")
    page.wait_for_selector("html[data-theme=dark]")
    visit(page, Stop("administration", "/settings/?tab=administration"))
    assert page.locator("main a[href^='/admin/']").count() == 2, "a viewer looks there, too"


def test_versions_say_what_each_changed(broken: Server, page: Any) -> None:
    enter(page, broken, "/topologies/hashtags/?tab=settings&version=2")
    text = page.locator("tr.detail").inner_text()
    assert "operators[0].parallelism" in text
    assert '"name": "hashtags"' in text


@pytest.mark.parametrize("width", [390, 1280])
def test_long_names_make_no_page_wider(broken: Server, page: Any, width: int) -> None:
    name, operator = "t" + "w" * 62, "P" * 64
    longer = {"hashtags": name, '"Parser': f'"{operator}', "rack-a": "rack-" + "w" * 59, "node-1": "n" * 64}

    def lengthen(route: Any) -> None:
        answer = route.fetch()
        text = answer.text()
        for short, long in longer.items():
            text = text.replace(short, long)
        route.fulfill(response=answer, body=text)

    page.route("**/api/v1/snapshot/", lengthen)
    page.set_viewport_size({"width": width, "height": 844})
    for path in ("/", f"/topologies/{name}/", f"/topologies/{name}/?operator={operator}", "/nodes/"):
        enter(page, broken, path)
        assert sideways(page) == 0, path
    enter(page, broken, f"/topologies/{name}/?operator={operator}")
    page.click("aside.panel header button:has-text('Close')")
    page.wait_for_selector("aside.panel", state="detached")
