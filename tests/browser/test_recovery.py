"""The pages about recovery in a real browser: incidents in waves, proposals, policies, priorities."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from domain.planning import cores_number
from tests.browser.asking import act, audited, confirm, read, refuses, requests_of
from tests.browser.conftest import enter
from tests.browser.servers import Server
from tests.browser.tour import Stop, listen, visit

pytestmark = pytest.mark.browser

INCIDENT = "/incidents/2/"
RECOVERY = "/topologies/hashtags/?tab=settings"


def waves_shown(page: Any) -> list[tuple[str, str]]:
    rows = page.locator("section[aria-label=Waves] > .wrap tbody tr")
    return [
        (row.locator("td").nth(0).inner_text().split()[0], row.locator("td").nth(1).inner_text())
        for row in rows.all()
    ]


def test_an_incident_shows_its_waves_and_why(broken: Server, page: Any) -> None:
    complaints: list[str] = []
    listen(page, complaints)
    enter(page, broken, INCIDENT)
    assert waves_shown(page) == [("1", "Caught up"), ("2", "Caught up"), ("3", "Replaying")]
    plans = read(page, broken, "incidents/2/plans/")["results"]
    third = page.locator("section[aria-label=Waves] tbody tr").nth(2).inner_text()
    cost = plans[2]["explanation"]["cost_percent"]
    assert f"{cores_number(cost)}/" in third
    assert "+0:41" in third

    page.click("section[aria-label=Waves] tbody tr >> nth=0 >> button:has-text('Why')")
    details = page.locator("section.details")
    text = details.inner_text()
    reasons = plans[0]["explanation"]["explanations"]
    taken = [one for one in reasons if one["selected"]]
    assert 0 < len(taken) < len(reasons)
    assert text.count("in, taken") == len(taken)
    assert details.locator("tbody tr").count() == len(reasons)
    assert "Planned load by node" in text
    assert "left down" in text
    assert "wave=hashtags%2F5" in page.url
    page.goto(page.url)
    page.wait_for_selector("section.details")
    page.keyboard.press("Escape")
    page.wait_for_selector("section.details", state="detached")
    assert "wave=" not in page.url
    assert complaints == []


def test_an_incident_of_moves_is_no_recovery(moved: Server, page: Any) -> None:
    complaints: list[str] = []
    listen(page, complaints)
    enter(page, moved, INCIDENT)
    assert waves_shown(page) == [("1", "Caught up")]
    (plan,) = read(page, moved, "incidents/2/plans/")["results"]
    assert (plan["kind"], set(plan["explanation"]["moved_from"].values())) == ("move", {"node-2"})
    row = page.locator("section[aria-label=Waves] tbody tr").nth(0).inner_text()
    assert f"{len(plan['restore'])} partitions moved" in row
    assert "node-2 → " in row
    text = page.locator("main").inner_text()
    assert "Moves, started manually" in text
    assert "Acquiring nodes" not in text
    assert "Blocking" not in text
    page.click("section[aria-label=Waves] tbody button:has-text('Why')")
    details = page.locator("section.details")
    moves = [line.split() for line in details.locator("ul[aria-label=Moves] li").all_inner_texts()]
    assert {line[0] for line in moves} == {"node-2"}
    assert sorted(one for line in moves for one in line[3:]) == sorted(plan["restore"])
    assert "partitions keep their state" in details.inner_text()
    assert "checkpoint at epoch" not in details.inner_text()
    assert complaints == []


def test_when_it_will_be_over(broken: Server, page: Any) -> None:
    enter(page, broken, INCIDENT)
    before = words_of_the_end(page, broken)
    banner = page.locator(".banner").inner_text()
    after = words_of_the_end(page, broken)
    # Which words are right depends on how long ago the server was seeded.
    assert before in banner or after in banner
    assert ("(80 %)" in banner) == ("Not over yet, expected" not in banner)
    assert "waits for nodes" in banner
    card = page.locator("section[aria-label='When it will be over']")
    text = card.inner_text()
    forecast = read(page, broken, "incidents/2/")["forecast"]
    assert card.locator("tbody tr").count() == len(forecast["course"]) > 3
    for group in forecast["queries"]:
        assert f"{len(group['queries'])} quer" in text
    visit(page, Stop("topology", "/topologies/hashtags/"))
    down = sum(len(group["queries"]) for group in forecast["queries"])
    assert page.locator("tbody .back").count() == down


def words_of_the_end(page: Any, server: Server) -> str:
    """How the page says when incident 2 is expected to be over."""
    over = read(page, server, "incidents/2/")["forecast"]["over"]
    left, most = (
        datetime.fromisoformat(over[at]).timestamp() - time.time() for at in ("expected_at", "high_at")
    )
    if left >= 1:
        return "Over in about"
    return "Over at any moment" if most >= 1 else "Not over yet, expected"


def test_predictions_stand_beside_what_came(recovered: Server, page: Any) -> None:
    enter(page, recovered, INCIDENT)
    text = page.locator("section[aria-label='When it will be over']").inner_text()
    assert "Prediction and outcome" in text
    assert "Over " not in page.locator(".banner").inner_text()
    course = read(page, recovered, "incidents/2/")["forecast"]["course"]
    known = [one for one in course if one["over_at"] is not None]
    held = [one for one in known if one["low_at"] <= one["over_at"] <= one["high_at"]]
    rows = page.locator("section[aria-label='When it will be over'] tbody tr")
    shown = [row.locator("td").last.inner_text() for row in rows.all()]
    assert (shown.count("yes"), len(shown)) == (len(held), len(course))


def test_what_is_still_down_stands_in_the_order_of_priority(broken: Server, page: Any) -> None:
    enter(page, broken, INCIDENT)
    down = page.locator("section[aria-label='Still down'] li")
    entities = read(page, broken, "snapshot/")["entities"]
    missing = [row for row in entities["query"].values() if not row["available"]]
    assert down.count() == len(missing) > 0
    shown = [int(row.locator("b").inner_text()) for row in down.all()]
    assert shown == sorted((row["priority"] for row in missing), reverse=True)
    text = page.locator("section[aria-label='Still down']").inner_text()
    assert "cannot be restored yet" in text
    assert "being restored or replayed" in text


def test_an_incident_long_ago_has_its_curve(recovered: Server, page: Any) -> None:
    """The samples of the snapshot are newer, so the page requests older ones."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    enter(page, recovered, INCIDENT)
    page.wait_for_selector("section[aria-label=Availability] canvas")
    assert [url for url in asked if "/topologies/hashtags/availability/?since=" in url]
    incident = read(page, recovered, "incidents/2/")
    text = page.locator("section[aria-label=Availability]").inner_text()
    assert f"mean availability {incident['availability_area'] * 100:.1f} %" in text
    assert "so far" not in text
    strip = page.locator(".strip").inner_text()
    assert "15/15" in strip.replace("\n", "")
    for label in ("First back", "Half back", "All back", "Closed after"):
        assert label in strip
    assert waves_shown(page)[-1] == ("4", "Verified")
    for name in ("Pause", "Replan", "Abort"):
        refuses(
            page,
            page.locator(f"main button:text-is('{name}')"),
            "incident 2 is closed; no action on it is possible any more",
        )
    assert "Every query is available" not in page.locator("section[aria-label='Still down']").inner_text()


def test_a_proposal_is_approved(proposed: Server, page: Any) -> None:
    enter(page, proposed, INCIDENT, user="operator")
    incident = read(page, proposed, "incidents/2/")
    waiting = incident["proposals"]["hashtags"]
    card = page.locator("section.proposal")
    text = card.inner_text()
    assert "Wave 2 of hashtags waits for approval" in text
    assert waiting["proposal"] in text
    assert f"{len(waiting['queries'])} queries" in text
    assert "are not affected" in text
    card.locator("text=Why this plan").click()
    page.wait_for_selector("section.details:has-text('in, taken 1.')")
    assert waves_shown(page)[-1] == ("2", "Waits for approval")

    card.locator("button:has-text('Approve')").click()
    dialog = page.locator("dialog[open]")
    told = dialog.inner_text()
    assert "queries return" in told
    assert "stay down until further nodes join" in told
    for query in waiting["queries"]:
        assert query in told
    sent = requests_of(page, "POST")
    dialog.locator("button[type=submit]").click()
    assert dialog.locator("[role=alert]").inner_text() == "Give a reason of at least three letters."
    assert sent == []
    confirm(page, "these are what we sell")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.wait_for_selector("section.proposal", state="detached")
    assert waves_shown(page)[-1] == ("2", "Published")
    assert [request.post_data_json["proposal"] for request in sent] == [waiting["proposal"]]
    assert sent[0].headers["idempotency-key"]
    assert audited(page, proposed, "incident.approve")[0] == ("operator", "these are what we sell")
    page.wait_for_selector("section[aria-label=Story] :text('operator confirmed proposal')")


@pytest.mark.parametrize("path", ["/", "/topologies/hashtags/"])
def test_what_is_awaited_is_answered_on_other_pages(proposed: Server, page: Any, path: str) -> None:
    enter(page, proposed, path, user="operator")
    waiting = read(page, proposed, "incidents/2/")["proposals"]["hashtags"]
    assert "No estimate: a plan waits for approval" in page.locator(".banner").inner_text()
    page.click(".banner button:text-is('Approve')")
    told = page.locator("dialog[open]").inner_text()
    assert "Approve wave 2 of hashtags" in told
    for query in waiting["queries"]:
        assert query in told
    sent = requests_of(page, "POST")
    confirm(page, "these are what we sell")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.wait_for_selector(".banner button:text-is('Approve')", state="detached")
    assert [request.post_data_json["proposal"] for request in sent] == [waiting["proposal"]]


def test_a_paused_recovery_is_resumed_on_the_fleet_page(proposed: Server, page: Any) -> None:
    enter(page, proposed, INCIDENT)
    act(page, "Pause", "the new rack is being cabled")
    visit(page, Stop("fleet", "/"))
    request = act(page, "Resume", "cabled")
    assert request.url.endswith("/api/v1/incidents/2/resume/")
    page.wait_for_selector(".banner button:text-is('Resume')", state="detached")


def test_an_overtaken_approval_is_refused_in_the_servers_words(
    proposed: Server, new_page: Callable[..., Any]
) -> None:
    page = new_page()
    enter(page, proposed, INCIDENT)
    page.click("section.proposal button:has-text('Approve')")
    other = new_page()
    enter(other, proposed, INCIDENT, user="operator")
    other.click("section.proposal button:has-text('Approve')")
    confirm(other, "quicker")
    other.wait_for_selector(".notice:has-text('Succeeded')")
    confirm(page, "slower")
    alert = page.locator("dialog[open] [role=alert]")
    alert.wait_for()
    assert "was approved by operator at" in alert.inner_text()
    assert "(quicker)" in alert.inner_text()


def test_a_recovery_is_paused_resumed_planned_anew_and_aborted(proposed: Server, page: Any) -> None:
    enter(page, proposed, INCIDENT)
    request = act(page, "Pause", "the new rack is being cabled")
    assert request.url.endswith("/api/v1/incidents/2/pause/")
    page.wait_for_selector("text=no further wave is planned")
    assert page.locator("main button:text-is('Pause')").count() == 0
    act(page, "Resume", "cabled")
    page.wait_for_selector("text=no further wave is planned", state="detached")
    page.wait_for_selector("section.proposal")
    before = page.locator("section[aria-label=Story] li").count()
    page.click(".banner button:text-is('Replan')")
    assert "is withdrawn and made again" in page.locator("dialog[open]").inner_text()
    confirm(page, "priorities were wrong")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.click(".notice button")
    page.wait_for_selector("section.proposal")
    assert page.locator("section[aria-label=Story] li").count() > before
    page.click("main button:text-is('Abort')")
    dialog = page.locator("dialog[open]")
    assert "partitions stay down" in dialog.inner_text()
    confirm(page, "we fail over to the other site")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.wait_for_selector(".banner:has-text('Aborted')")
    assert page.locator("section.proposal").count() == 0
    page.locator("main button:text-is('Replan')").hover()
    page.wait_for_selector(
        ".why.shown:has-text('incident 2 is aborted; no action on it is possible any more')"
    )
    assert [one[1] for action in ("pause", "resume", "replan", "abort")
            for one in audited(page, proposed, f"incident.{action}")] == [
        "the new rack is being cabled", "cabled", "priorities were wrong", "we fail over to the other site",
    ]  # fmt: skip


def test_a_viewer_sees_everything_and_changes_nothing(broken: Server, page: Any) -> None:
    enter(page, broken, INCIDENT, user="viewer")
    assert len(waves_shown(page)) == 3
    for name in ("Pause", "Replan", "Abort"):
        refuses(page, page.locator(f"main button:text-is('{name}')"), "this action needs the operator role")
    visit(page, Stop("policy", RECOVERY, ready="form.policy"))
    assert page.locator("form.policy select:not(:disabled), form.policy input:not(:disabled)").count() == 0
    visit(page, Stop("queries", "/topologies/hashtags/"))
    field = page.locator("tr:has-text('O4[0]') button:has(.priority)")
    assert "this action needs the operator role" in field.get_attribute("title")
    field.click(force=True)
    assert page.locator("tr input").count() == 0


def test_a_policy_is_edited_with_a_reason(broken: Server, page: Any) -> None:
    enter(page, broken, RECOVERY, user="operator")
    form = page.locator("form.policy")
    assert form.locator(".chip:text-is('default')").count() == 16
    save = form.locator("button:has-text('Save')")
    save.hover()
    page.wait_for_selector(".why.shown:has-text('No changes.')")
    page.select_option("#policy-planner", "optimal")
    page.fill("#policy-correlation_threshold", "0")
    assert "2 changes not saved" in form.inner_text()
    sent = requests_of(page, "PATCH")
    save.click()
    dialog = page.locator("dialog[open]")
    assert "Planner: Best density → Optimal" in dialog.inner_text()
    confirm(page, "few queries, so exact plans")
    alert = dialog.locator("[role=alert]")
    alert.wait_for()
    assert alert.inner_text().startswith("correlation_threshold: ")
    dialog.locator("button:has-text('Cancel')").click()
    page.fill("#policy-correlation_threshold", "3")
    save.click()
    confirm(page, "few queries, so exact plans")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.wait_for_function("() => document.querySelectorAll('form.policy .chip.busy').length === 2")
    assert form.locator(".chip:text-is('set here')").count() == 2
    policy = read(page, broken, "topologies/hashtags/policy/")
    assert (policy["planner"], policy["correlation_threshold"]) == ("optimal", 3)
    assert [request.post_data_json["reason"] for request in sent] == ["few queries, so exact plans"] * 2
    assert audited(page, broken, "topology.policy")[0] == ("operator", "few queries, so exact plans")


def test_a_priority_is_edited_in_place(broken: Server, page: Any) -> None:
    enter(page, broken, "/topologies/hashtags/", user="operator")
    row = page.locator("tr:has-text('O6[0]')")
    row.locator("button:has(.priority)").click()
    field = row.locator("input")
    field.fill("11")
    field.press("Enter")
    assert page.locator("dialog[open]").count() == 0
    assert "1 to 10" in row.inner_text()
    now = read(page, broken, "topologies/hashtags/queries/O6[0]/")["priority"]
    value = now % 10 + 1
    field.fill(str(value))
    field.press("Enter")
    assert "Incident 2 is open" in page.locator("dialog[open]").inner_text()
    confirm(page, "sold today")
    page.wait_for_selector(f"tr:has-text('O6[0]') .priority:text-is('{value}')")
    assert audited(page, broken, "query.priority")[0] == ("operator", "sold today")


def test_a_first_day(empty: Server, page: Any) -> None:
    enter(page, empty, "/incidents/")
    page.wait_for_selector("text=No incidents yet")
    visit(page, Stop("what-if", "/what-if/"))
    page.wait_for_selector("text=No node has registered yet")
