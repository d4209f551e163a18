"""The bell and the page of alerts in a real browser: what fires, silences, and rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.asking import change, confirm, read
from tests.browser.conftest import enter
from tests.browser.servers import Server

pytestmark = pytest.mark.browser

FIRING = "section[aria-label=Firing] tbody tr"


def alerts_of(page: Any, server: Server, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(page, server, f"alerts/?{query}")["results"]
    return rows


def test_the_bell_counts_what_fires_and_the_page_says_what_it_is(broken: Server, page: Any) -> None:
    enter(page, broken, "/", user="viewer")
    firing = alerts_of(page, broken, "state=firing&silenced=false")
    assert firing
    bell = page.locator("header a.bell")
    assert bell.inner_text().split() == ["Alerts,", str(len(firing)), "firing"]
    bell.click()
    page.wait_for_selector(FIRING)
    shown = [" ".join(row.inner_text().split()) for row in page.locator(FIRING).all()]
    assert len(shown) == len(firing)
    assert shown[0].startswith("Critical hashtags queries-unavailable")
    assert "below 100 %" in shown[0]
    silenced = alerts_of(page, broken, "state=firing&silenced=true")
    assert page.locator("section[aria-label=Silenced] tbody tr").count() == len(silenced) > 0
    runbook = page.locator("section[aria-label=Silenced] a:text-is('Runbook')").first
    assert runbook.get_attribute("href") == "https://wiki.example.org/runbooks/latency"
    assert runbook.get_attribute("rel") == "noopener noreferrer"
    page.click(f"{FIRING} a:has-text('hashtags')")
    page.wait_for_selector("h1:has-text('hashtags')")


def test_an_alert_is_silenced_and_the_silence_ended(broken: Server, page: Any) -> None:
    enter(page, broken, "/alerts/", user="operator")
    row = f"{FIRING}:has-text('queries-unavailable')"
    page.click(f"{row} button:text-is('Silence')")
    page.wait_for_selector("dialog[open] select[name=rule]")
    assert page.input_value("dialog[open] select[name=rule]") == "queries-unavailable"
    assert page.input_value("dialog[open] select[name=topology]") == "hashtags"
    page.select_option("dialog[open] select[name=seconds]", "1800")
    confirm(page, "the recovery is watched")
    page.wait_for_selector("section[aria-label=Silenced] tr:has-text('queries-unavailable')")
    page.wait_for_selector(row, state="detached")
    silence = "section[aria-label=Silences] tr:has-text('queries-unavailable')"
    assert "the recovery is watched" in page.locator(silence).inner_text()
    page.click(f"{silence} button:text-is('End')")
    confirm(page, "it is over")
    page.wait_for_selector(row)


def test_rules_are_edited_by_administrators_only(broken: Server, page: Any) -> None:
    enter(page, broken, "/alerts/", user="operator")
    rule = "section[aria-label=Rules] tr:has(:text-is('fidelity-low'))"
    assert page.locator(f"{rule} button:text-is('Change')").get_attribute("aria-disabled") == "true"
    enter(page, broken, "/alerts/")
    page.click(f"{rule} button:text-is('Change')")
    page.fill("dialog[open] input[name=threshold]", "0.25")
    confirm(page, "as the teams agreed")
    page.wait_for_selector(f"{rule}:has-text('below 25 %')")
    assert read(page, broken, "alert-rules/fidelity-low/")["threshold"] == 0.25
    page.click(f"{rule} button:text-is('Change')")
    page.wait_for_selector("dialog[open] input[name=threshold]")
    change(page, "alert-rules/fidelity-low/", {"severity": "critical", "reason": "another"})
    page.fill("dialog[open] input[name=threshold]", "0.5")
    page.fill("dialog[open] textarea >> nth=-1", "late")
    page.click("dialog[open] button[type=submit]")
    page.wait_for_selector("dialog[open] [role=alert]:has-text('rule fidelity-low was changed meanwhile')")
    page.click("dialog[open] button:text-is('Cancel')")
    now = read(page, broken, "alert-rules/fidelity-low/")
    assert (now["threshold"], now["severity"]) == (0.25, "critical")
    page.click("main button:text-is('New rule…')")
    page.fill("dialog[open] input[name=name]", "old")
    page.select_option("dialog[open] select[name=metric]", "checkpoint_age")
    page.fill("dialog[open] input[name=threshold]", "")
    page.fill("dialog[open] textarea >> nth=-1", "a second look")
    page.click("dialog[open] button[type=submit]")
    assert "Fill in: Threshold" in page.locator("dialog[open] [role=alert]").inner_text()
    page.fill("dialog[open] input[name=threshold]", "600")
    page.click("dialog[open] button[type=submit]")
    old = "section[aria-label=Rules] tr:has(:text-is('old'))"
    page.wait_for_selector(f"{old}:has-text('above 10 min for 1 min')")
    page.click(f"{old} button:text-is('Delete')")
    confirm(page, "not needed")
    page.wait_for_selector(old, state="detached")
