"""What an operator does in an incident, with the keyboard alone: no pointer is used here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.asking import audited, requests_of
from tests.browser.conftest import enter
from tests.browser.servers import Server

pytestmark = pytest.mark.browser

FOCUS = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return {
    name: (element.getAttribute("aria-label") || element.innerText || "").trim(),
    main: Boolean(element.closest("main")) && element.tagName !== "MAIN",
    ring: style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2,
    inside: element.getBoundingClientRect().top >= 0 && element.getBoundingClientRect().bottom <= innerHeight,
  };
}"""
MOST = 40
"""Keys to anything that is asked for here, from the top of the content."""


def focus(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(FOCUS)
    return found


def tab_to(page: Any, name: str) -> None:
    """Press Tab until what has this name has the focus; each stop on the way must be seen."""
    for _ in range(MOST):
        page.keyboard.press("Tab")
        at = focus(page)
        assert at["ring"], at
        assert at["inside"], at
        if at["name"] == name:
            return
    raise AssertionError(f"{name} is not reached with {MOST} keys")


def answer(page: Any, reason: str) -> None:
    page.wait_for_selector("dialog[open] textarea:focus")
    page.keyboard.type(reason)
    page.keyboard.press("Control+Enter")


def close(page: Any) -> None:
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")


def test_the_content_is_reached_without_the_bar(healthy: Server, page: Any) -> None:
    enter(page, healthy)
    page.keyboard.press("Tab")
    assert focus(page)["name"] == "Skip to the content"
    page.keyboard.press("Enter")
    page.wait_for_selector("main:focus")
    assert page.url == f"{healthy.url}/"
    page.keyboard.press("Tab")
    assert focus(page)["main"]
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_selector("main:focus h1:text-is('Nodes')")
    page.keyboard.press("Tab")
    assert focus(page)["main"]


def test_a_plan_is_read_and_approved(proposed: Server, page: Any) -> None:
    enter(page, proposed, user="operator")
    sent = requests_of(page, "POST")
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_selector("main:focus h1:has-text('Incident 2'), main:focus:has(h2:has-text('Incident 2'))")
    tab_to(page, "Approve")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] textarea:focus")
    close(page)
    assert focus(page)["name"] == "Approve", "the focus returns"
    page.keyboard.press("Enter")
    answer(page, "the order is right")
    page.wait_for_selector(".notice:has-text('Succeeded')")
    assert [request.url.split("/")[-2] for request in sent] == ["approve"]
    assert audited(page, proposed, "incident.approve")[0] == ("operator", "the order is right")


def test_a_recovery_is_paused_and_resumed(proposed: Server, page: Any) -> None:
    enter(page, proposed, user="operator")
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.wait_for_selector("main:focus")
    tab_to(page, "Pause")
    page.keyboard.press("Enter")
    answer(page, "the provider is repaired")
    page.wait_for_selector("main button:text-is('Resume')")
    page.keyboard.press("Control+k")
    page.keyboard.type("resume the recovery")
    page.keyboard.press("Enter")
    answer(page, "it is repaired")
    page.wait_for_selector("main button:text-is('Pause')")
    assert audited(page, proposed, "incident.resume")[0] == ("operator", "it is repaired")


def test_nodes_and_a_checkpoint_are_asked_for(spare: Server, page: Any) -> None:
    """Live figures change the rows each second; the focus stays on the button."""
    enter(page, spare, user="operator")
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_selector("main:focus h1:text-is('Nodes')")
    tab_to(page, "Drain rack-b")
    page.keyboard.press("Enter")
    answer(page, "a new switch")
    page.wait_for_selector("main button:text-is('Activate rack-b')")
    page.keyboard.press("Control+k")
    page.keyboard.type("checkpoint of hashtags")
    page.keyboard.press("Enter")
    answer(page, "before the work")
    page.wait_for_selector(".notice:has-text('Take a checkpoint of hashtags')")
    assert audited(page, spare, "rack.drain")[0] == ("operator", "a new switch")
    assert audited(page, spare, "topology.checkpoint")[0] == ("operator", "before the work")


def test_the_focus_stays_while_rows_change(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/nodes/")
    row = "section[aria-label='All nodes'] tr:has(button:text-is('node-5'))"
    page.focus(f"{row} button:text-is('Drain')")
    before = int(page.evaluate("() => document.documentElement.dataset.sequence"))
    page.wait_for_function("(at) => Number(document.documentElement.dataset.sequence) > at + 5", arg=before)
    assert page.evaluate("() => document.activeElement.closest('tr').innerText").find("node-5") >= 0
    assert focus(page)["name"] == "Drain"
