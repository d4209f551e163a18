"""The what-if page in a real browser: the request, the answer, and a link that repeats the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import enter
from tests.browser.servers import Server
from tests.browser.tour import listen

pytestmark = pytest.mark.browser

ASKED = "/what-if/?racks=rack-b&arrivals=at:30,45,60,90"


def table(page: Any) -> list[list[str]]:
    page.wait_for_selector("section[aria-label=Comparison] tbody tr", timeout=40_000)
    rows = page.locator("section[aria-label=Comparison] > .wrap tbody tr").all()
    return [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in rows]


def test_a_question_is_put_together_and_answered(healthy: Server, page: Any) -> None:
    complaints: list[str] = []
    listen(page, complaints)
    enter(page, healthy, user="viewer")
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.wait_for_url("**/what-if/")
    page.wait_for_selector("text=No nodes chosen")
    button = page.locator("button:text-is('Predict')")
    assert button.get_attribute("aria-disabled") == "true"
    assert button.get_attribute("title") == "Choose nodes or racks to lose."
    page.check("label:has-text('rack-b') input >> nth=0")
    page.check("label:has-text('At these times') input")
    page.fill("input[aria-label='Seconds after the failure']", "30, 45; 60 90")
    page.keyboard.press("Tab")
    page.check("label:has-text('Optimal') input")
    assert "4 nodes lost at once" in page.locator("form.question").inner_text()
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    page.click("button:text-is('Predict')")
    rows = table(page)
    assert [request.url.split("/api/v1/")[1] for request in sent] == ["what-if/"]
    names = [row[0] for row in rows]
    assert sorted(names) == ["Best density", "Best in hindsight", "Blocking", "Operator centric", "Optimal"]
    areas = [float(row[4].rstrip(" %")) for row in rows]
    assert areas == sorted(areas, reverse=True)
    assert names[0] == "Best in hindsight" or areas[names.index("Best in hindsight")] == areas[0]
    assert page.locator("section[aria-label='Predicted availability'] canvas").count() == 1
    for part in ("racks=rack-b", "arrivals=at%3A30%2C45%2C60%2C90", "planners="):
        assert part in page.url
    page.click("button:text-is('Blocking')")
    page.wait_for_selector("h3:has-text('Waves of Blocking')")
    assert "show=blocking" in page.url
    # When the question changes, the page marks the answer as outdated.
    page.uncheck("label:has-text('Optimal') input")
    page.wait_for_selector("text=The question has changed since the answer below.")
    assert complaints == []


def test_a_link_asks_the_same(healthy: Server, new_page: Callable[..., Any]) -> None:
    page, other = new_page(), new_page()
    enter(page, healthy, ASKED)
    enter(other, healthy, ASKED, user="viewer")
    first = table(page)
    assert [row[0] for row in first] == [row[0] for row in table(other)]
    assert page.locator("label:has-text('rack-b') input >> nth=0").is_checked()
    assert page.locator("input[aria-label='Seconds after the failure']").input_value() == "30, 45, 60, 90"


def test_it_changes_nothing(healthy: Server, page: Any) -> None:
    enter(page, healthy, ASKED)
    table(page)
    for path in ("audit/", "operations/", "incidents/"):
        before = page.request.get(f"{healthy.url}/api/v1/{path}").json()["count"]
        page.click("button:text-is('Predict')")
        page.wait_for_selector("button:text-is('Predict')")
        table(page)
        assert page.request.get(f"{healthy.url}/api/v1/{path}").json()["count"] == before


def test_errors_are_in_the_servers_words(healthy: Server, broken: Server, page: Any) -> None:
    enter(page, healthy, "/what-if/?nodes=node-77")
    page.wait_for_selector(".empty.bad:has-text(\"there is no node 'node-77'\")")
    page.wait_for_selector("text=Unknown: node-77")
    page.click("button:text-is('Leave out')")
    assert "node-77" not in page.url
    page.goto(f"{healthy.url}/what-if/?nodes=node-1")
    table(page)
    page.check("label:has-text('At random times between') input")
    page.fill("input[aria-label='Earliest, seconds']", "900")
    page.keyboard.press("Tab")
    page.wait_for_selector("[role=alert]:has-text('The earliest time must not be after the latest.')")
    enter(page, broken, "/what-if/?racks=rack-a")
    page.wait_for_selector(".empty.bad:has-text('partitions of hashtags are down now')")
    page.wait_for_selector(".note:has-text('A recovery is under way')")
