"""Topologies of 1,000 partitions: the graph is collapsed by operator, and moving it changes few elements."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import enter
from tests.browser.servers import Server
from tests.browser.tour import FRAMES, Stop, visit

pytestmark = pytest.mark.browser

STEPS = 20
TOUCHED = """() => {
  const watched = document.querySelector("div.graph");
  window.touched_ = new Set();
  window.built_ = 0;
  window.watching = new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "attributes") window.touched_.add(change.target);
      else window.built_ += change.addedNodes.length + change.removedNodes.length;
    }
  });
  window.watching.observe(watched, {attributes: true, childList: true, subtree: true});
}"""
COUNTED = """() => {
  window.watching.disconnect();
  return {touched: window.touched_.size, built: window.built_};
}"""
MOVED = 4
"""Elements that a move may change, for a graph of any size: the one around the graph, and controls."""


def drag(page: Any) -> None:
    box = page.locator("div.graph").bounding_box()
    x, y = box["x"] + 20, box["y"] + box["height"] - 20
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, STEPS + 1):
        page.mouse.move(x + 7 * step, y - 3 * step)
        page.evaluate(FRAMES)
    page.mouse.up()


def zoom(page: Any) -> None:
    page.mouse.move(1, 1)  # a box under the pointer highlights its lineage
    page.focus(".graph svg")
    for step in range(STEPS):
        page.keyboard.press("-" if step % 4 == 3 else "+")
        page.evaluate(FRAMES)


GROUPS = ["0/source", *(f"{level}/union" for level in range(1, 8)), "8/union/output"]
UNFOLDED = f"woven/?open={','.join(GROUPS)}"


@pytest.mark.parametrize(("path", "boxes"), [("wide/", 10), ("woven/", 9), (UNFOLDED, 250)])
def test_moving_the_graph_builds_nothing_anew(large: Server, page: Any, path: str, boxes: int) -> None:
    """`benchmarks.dashboard` measures the time of a step. This test checks that it does not grow with the
    graph."""
    enter(page, large)
    visit(page, Stop("graph", f"/topologies/{path}", ready=f".graph .box >> nth={boxes - 1}"))
    assert page.locator(".graph .box").count() == boxes
    for move in (drag, zoom):
        before = page.locator(".graph .box").first.bounding_box()
        page.evaluate(TOUCHED)
        move(page)
        counted = page.evaluate(COUNTED)
        assert page.locator(".graph .box").first.bounding_box() != before, "the graph has not moved"
        assert 1 <= counted["touched"] <= MOVED, counted
        assert counted["built"] == 0, counted


def test_groups_unfold_and_fold(large: Server, page: Any) -> None:
    enter(page, large, "/topologies/woven/")
    page.wait_for_selector(".groups:has-text('250 operators in 9 boxes')")
    page.click(".box:has-text('10 × source')")
    page.wait_for_selector(".groups:has-text('250 operators in 18 boxes')")
    assert "open=0%2Fsource" in page.url
    page.click(".box:has-text('S3')")
    page.wait_for_selector("aside.panel:has-text('S3[3]')")
    page.keyboard.press("Escape")
    page.click("button:text-is('Fold')")
    page.wait_for_selector(".groups:has-text('in 9 boxes')")
    # A link to an operator unfolds its group.
    visit(page, Stop("linked", "/topologies/woven/?operator=L4x7", ready="aside.panel"))
    page.wait_for_selector(".box.selected:has-text('L4x7')")
