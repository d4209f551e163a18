"""Topologies of 1,000 partitions: the graph is collapsed by operator, and moving it stays cheap."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import enter
from tests.browser.servers import Server
from tests.browser.tour import FRAMES, Stop, visit

pytestmark = pytest.mark.browser

SMOOTH, USABLE = 33.3, 80.0
"""Milliseconds of the page's own thread for a step, which is two frames: 60 frames a second, and 25."""

STEPS = 40
RECORD = """() => {
  window.frames_ = [];
  let last = performance.now();
  const note = (now) => {
    window.frames_.push(now - last);
    last = now;
    window.noting = requestAnimationFrame(note);
  };
  window.noting = requestAnimationFrame(note);
}"""
STOP = "() => { cancelAnimationFrame(window.noting); return window.frames_.slice(1).sort((a, b) => a - b); }"


class Thread:
    """CPU time of the page's main thread, by the browser's own account: what else runs does not count."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        self.session.send("Performance.enable")

    def milliseconds(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return 1000.0 * float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


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
    page.focus(".graph svg")
    for step in range(STEPS):
        page.keyboard.press("+" if step % 20 < 10 else "-")
        page.evaluate(FRAMES)


GROUPS = ["0/source", *(f"{level}/union" for level in range(1, 8)), "8/union/output"]
UNFOLDED = f"woven/?open={','.join(GROUPS)}"


@pytest.mark.parametrize(
    ("path", "boxes", "budget"), [("wide/", 10, SMOOTH), ("woven/", 9, SMOOTH), (UNFOLDED, 250, USABLE)]
)
def test_the_graph_stays_smooth(
    large: Server, page: Any, path: str, boxes: int, budget: float, record_property: Any
) -> None:
    enter(page, large)
    thread = Thread(page)
    visit(page, Stop("graph", f"/topologies/{path}", ready=f".graph .box >> nth={boxes - 1}"))
    assert page.locator(".graph .box").count() == boxes
    for name, move in (("drag", drag), ("zoom", zoom)):
        page.evaluate(RECORD)
        before = thread.milliseconds()
        move(page)
        cost = (thread.milliseconds() - before) / STEPS
        frames = page.evaluate(STOP)
        record_property(f"{boxes} boxes, {name}: main thread, ms a step", round(cost, 2))
        record_property(f"{boxes} boxes, {name}: frame p50, ms", round(frames[len(frames) // 2], 1))
        record_property(f"{boxes} boxes, {name}: frame p95, ms", round(frames[int(len(frames) * 0.95)], 1))
        assert cost < budget, f"{name} takes {cost:.1f} ms a step"


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
