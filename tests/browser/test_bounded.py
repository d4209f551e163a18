"""Pages of a topology with a bounded guarantee, in a browser: what became of keys, and what it has not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.asking import read
from tests.browser.bounded import FAILING
from tests.browser.conftest import enter
from tests.browser.servers import Server
from tests.browser.tour import listen

pytestmark = pytest.mark.browser

PATH = "/topologies/trending/"


def test_keys_are_told_by_node_with_what_went_wrong(bounded: Server, page: Any) -> None:
    complaints: list[str] = []
    listen(page, complaints)
    enter(page, bounded, f"{PATH}?tab=checkpoints", user="viewer")
    page.wait_for_selector("text=States of keys")
    told = page.locator("section[aria-label=Details]").inner_text()
    keys = read(page, bounded, "topologies/trending/")["keys"]
    assert f"bypassed by 1 of {len(keys)} nodes" in told
    assert f"{FAILING}: {keys[FAILING]['error']}" in told
    failing = page.locator(f"section[aria-label=Details] tbody tr:has-text('{FAILING}')").inner_text()
    assert "bypassed until" in failing
    assert f"{keys[FAILING]['refused']} refused" in failing
    assert (
        "at most what came since its state was stored last (every 5 s)" in page.locator("main").inner_text()
    )
    assert page.locator("button:text-is('Take checkpoint')").is_disabled()
    assert complaints == []


def test_what_has_no_effect_cannot_be_set(bounded: Server, page: Any) -> None:
    enter(page, bounded, f"{PATH}?tab=settings")
    page.wait_for_selector("#policy-method")
    names = page.eval_on_selector_all(
        "[id^=policy-]", "all => all.filter(one => one.disabled).map(one => one.id.slice(7))"
    )
    policy = read(page, bounded, "topologies/trending/policy/")
    assert sorted(names) == sorted(name for name in policy if name.startswith(("replication_", "tentative_")))
    assert page.locator("text=Not with a bounded guarantee").count() == len(names)
    # The other topology has an exact guarantee.
    page.goto(f"{bounded.url}/topologies/hashtags/?tab=settings")
    page.wait_for_selector("#policy-method")
    assert page.locator("[id^=policy-]:disabled").count() == 0


def test_replicas_are_not_offered(bounded: Server, page: Any) -> None:
    enter(page, bounded, f"{PATH}?tab=replication")
    page.wait_for_selector(".empty:has-text('It can have no replicas')")
    assert page.locator("button:has-text('Turn replicas on')").count() == 0
