"""The replication tab of a topology in a real browser: a plan, its address, and refused requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.asking import read
from tests.browser.conftest import enter
from tests.browser.servers import Server
from tests.browser.tour import listen

pytestmark = pytest.mark.browser

PATH = "/topologies/hashtags/?tab=replication"
PLAN = "section[aria-label='Replication plan']"
ROWS = "[aria-label='Protection of each partition, table'] tbody tr"


def fact(page: Any, name: str) -> str:
    text: str = page.locator(f"{PLAN} div:has(> dt:text-is('{name}')) dd").inner_text()
    return text


def test_a_plan_is_asked_for_explained_and_linked(healthy: Server, page: Any) -> None:
    complaints: list[str] = []
    listen(page, complaints)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1/")[2]))
    enter(page, healthy, PATH, user="viewer")
    page.wait_for_selector(ROWS)
    # The document requested it while the app was being loaded; the app does not request it again.
    assert asked.count("topologies/hashtags/replication-plan/") == 1, asked
    assert "Its policy is advise, so no replica runs" in page.locator("main").inner_text()
    plan = read(page, healthy, "topologies/hashtags/replication-plan/")
    assert page.locator(ROWS).count() == plan["total"]
    page.fill("input[aria-label='Budget, partitions']", "4")
    page.keyboard.press("Tab")
    page.select_option(f"{PLAN} select", "greedy")
    page.wait_for_url("**budget=4**planner=greedy**")
    page.wait_for_selector(f"{ROWS}:has-text('step 4')")
    assert page.locator(f"{ROWS}:has-text('passive only')").count() == plan["total"] - 4
    assert fact(page, "Partitions chosen") == f"4 of {plan['total']}"
    # The link alone shows the same.
    page.goto(page.url)
    page.wait_for_selector(f"{ROWS}:has-text('step 4')")
    assert page.locator("input[aria-label='Budget, partitions']").input_value() == "4"
    assert page.locator(f"{PLAN} select").input_value() == "greedy"
    page.fill("input[aria-label='Budget, partitions']", str(plan["total"]))
    page.keyboard.press("Tab")
    page.wait_for_selector(f"{PLAN} dd:has-text('100.0 %')")
    queries = page.locator("[aria-label='Queries until they are recovered, table'] tbody tr")
    assert queries.count() == len(plan["queries"])
    assert complaints == []


def test_budgets_that_buy_nothing_and_planners_that_do_not_exist(healthy: Server, page: Any) -> None:
    enter(page, healthy, f"{PATH}&budget=1")
    page.wait_for_selector(".empty:has-text('1 replica would give no output')")
    page.fill("input[aria-label='Budget, partitions']", "0")
    page.keyboard.press("Tab")
    page.wait_for_selector(".empty:has-text('A budget of 0 replicates nothing')")
    enter(page, healthy, f"{PATH}&planner=magic")
    page.wait_for_selector(".empty.bad:has-text('magic')")
    page.click("button:text-is('Use structure aware')")
    page.wait_for_selector(ROWS)
    assert "planner=structure_aware" in page.url
