"""Every view there is: it logs no error, asks no other server, is accessible, fits a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser import axe
from tests.browser.asking import read, sideways
from tests.browser.conftest import enter
from tests.browser.screenshots import EXPECTED
from tests.browser.servers import Server
from tests.browser.tour import FRAMES, Stop, listen, stops, visit

pytestmark = pytest.mark.browser

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def told(found: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}: {one}" for name, wrong in found.items() for one in wrong)


@pytest.mark.parametrize("state", ["empty", "healthy", "broken"])
def test_every_view(state: str, page: Any, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(state)
    complaints: list[str] = []
    foreign: list[str] = []
    listen(page, complaints)

    def asked(one: Any) -> None:
        if not one.url.startswith((server.url, "data:", "blob:")):
            foreign.append(one.url)

    page.on("request", asked)
    enter(page, server)
    axe.prepare(page)
    found: dict[str, list[str]] = {}
    for stop in stops(read(page, server, "snapshot/")):
        visit(page, stop)
        wrong = axe.violations(page)
        if state == "broken":  # it has every view and every colour
            page.emulate_media(color_scheme="dark")
            page.evaluate(FRAMES)
            wrong += [f"dark: {one}" for one in axe.violations(page, colours_only=True)]
            page.emulate_media(color_scheme="light")
        page.set_viewport_size(PHONE)
        page.evaluate(FRAMES)
        if state == "broken":
            wrong += [f"on a phone: {one}" for one in axe.violations(page)]
        if sideways(page) > 0:
            wrong.append(f"scrolls {sideways(page)} px to the side on a phone")
        page.set_viewport_size(WIDE)
        if wrong:
            found[stop.name] = wrong
    assert not found, told(found)
    assert [one for one in complaints if EXPECTED not in one] == []
    assert foreign == []


def test_a_phone_has_room_for_whatever_the_bar_says(healthy: Server, page: Any) -> None:
    enter(page, healthy)
    page.set_viewport_size({"width": 360, "height": 740})
    for said in ("now", "Updated 59 min 59 s ago", "Paused, 12345 waiting, and longer than any line"):
        page.evaluate("said => { document.querySelector('header .word').textContent = said; }", said)
        assert sideways(page) == 0, said
        assert page.locator("header .word").bounding_box()["width"] > 12
        for button in page.locator("header button:visible, header summary:visible").all():
            assert button.bounding_box()["x"] + button.bounding_box()["width"] <= 360


CUT = """all => {
  const right = (one) => one.getBoundingClientRect().right;
  const cut = (one) => one.scrollWidth > one.clientWidth + 1 || right(one) > right(one.parentElement);
  return all.filter(cut).map((one) => one.textContent);
}"""
"""Texts that are wider than their place."""


def test_a_phone_has_what_an_operator_reads_and_presses(broken: Server, page: Any) -> None:
    def date_back(route: Any) -> None:
        answer = route.fetch()
        text = re.sub(r'("opened_at":\s*)"\d{4}-', r'\1"2024-', answer.text())
        route.fulfill(response=answer, body=text)

    page.route("**/api/v1/snapshot/", date_back)
    page.set_viewport_size(PHONE)
    enter(page, broken, "/incidents/2/")
    assert " 2024, " in page.inner_text(".strip")
    assert page.locator(".strip .value").evaluate_all(CUT) == []
    visit(page, Stop("alerts", "/alerts/"))
    assert page.locator("section[aria-label=Firing] th:has-text('What to do')").is_visible()
    visit(page, Stop("settings", "/topologies/hashtags/?tab=settings"))
    tab = page.locator("[role=tab][aria-selected=true]").bounding_box()
    assert tab["x"] >= 0
    assert tab["x"] + tab["width"] <= PHONE["width"]
    visit(page, Stop("queries", "/topologies/hashtags/"))
    assert page.locator("section:has([role=tab]) button:text-is('Park…')").first.is_visible()


ADMIN = (
    "",
    "topologies/topology/",
    "topologies/topology/1/change/",
    "nodes/node/",
    "events/auditentry/",
    "accounts/user/",
    "accounts/user/2/change/",
    "webhooks/webhook/add/",
    "installation/",
)


def test_the_login_and_admin_pages_are_accessible(healthy: Server, new_page: Any) -> None:
    found: dict[str, list[str]] = {}
    for scheme in ("light", "dark"):
        page = new_page(color_scheme=scheme)
        page.goto(f"{healthy.url}/login/?next=/nodes/")
        axe.prepare(page)
        found[f"login {scheme}"] = axe.violations(page)
        enter(page, healthy)
        for path in ADMIN:
            page.goto(f"{healthy.url}/admin/{path}")
            axe.prepare(page)
            found[f"admin/{path} {scheme}"] = axe.violations(page, colours_only=scheme == "dark")
    assert not any(found.values()), told(found)
