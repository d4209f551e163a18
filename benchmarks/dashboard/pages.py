"""Pages in Chromium: the time until they show their content, and how smoothly the graph moves."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.table import Table

from benchmarks.dashboard.figures import percentile, summary
from benchmarks.dashboard.server import PASSWORD, USER, Web
from benchmarks.dashboard.sockets import ingesting
from benchmarks.runner import Report, Session, at_most

BOUND_MS = 1_000.0
FRAME_MS = 50.0
"""Milliseconds: below twenty frames a second dragging visibly lags. There is no graphics card here."""

PATIENCE_MS = 120_000
"""Milliseconds. A longer wait is a failure; the limit is high because the machine may be busy."""

SCREEN: Any = {"width": 1440, "height": 900}
TABS = ("queries", "operators", "nodes", "checkpoints", "replication", "errors", "settings")

# Records when the page shows its content: the state is loaded, no request is open, the frame is painted.
# A frame paints the content that exists when it begins; the message arrives after the paint.
PAINTED = """() => {
  window.usefulAt = null;
  const look = () => {
    const main = document.querySelector("main");
    if (main && main.querySelector(".card") && !document.querySelector(".skeleton, main [aria-busy=true]")) {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => (window.usefulAt = performance.now());
      port2.postMessage(null);
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""

FRAMES = """() => {
  window.frames = []; let last = performance.now(); window.recording = true;
  const note = (now) => {
    window.frames.push(now - last); last = now;
    if (window.recording) requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""


@contextmanager
def browsing(web: Web) -> Iterator[Any]:
    """A function that opens a page of a signed-in user in a browser that has nothing in its cache."""
    from playwright.sync_api import sync_playwright

    from harness.chromium import LAUNCH, sign_in

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        first = browser.new_context(viewport=SCREEN)
        first.set_default_timeout(PATIENCE_MS)
        sign_in(first.new_page(), web.url, USER, PASSWORD)
        state = first.storage_state()
        first.close()

        @contextmanager
        def fresh() -> Iterator[Any]:
            context = browser.new_context(viewport=SCREEN, storage_state=state)
            context.set_default_timeout(PATIENCE_MS)
            context.add_init_script(f"({PAINTED})()")
            try:
                yield context.new_page()
            finally:
                context.close()

        yield fresh
        browser.close()


def addresses(page: Any, url: str, incident: int) -> dict[str, str]:
    """Name to path: the pages of the navigation, a topology with each of its tabs, and an incident."""
    page.goto(url)
    page.wait_for_selector("header nav a")
    links = page.eval_on_selector_all(
        "header nav a", "links => links.map((one) => [one.textContent.trim(), one.getAttribute('href')])"
    )
    found = {"".join(filter(lambda c: not c.isdigit(), name)).strip(): path for name, path in links}
    for topology in ("region-1", "flat"):
        found |= {f"Topology {topology}, {tab}": f"/topologies/{topology}/?tab={tab}" for tab in TABS}
    return found | {"Incident": f"/incidents/{incident}/"}


def first_paints(session: Session, report: Report, web: Web, incident: int) -> None:
    """Milliseconds from the navigation to the first useful paint, with an empty cache."""
    repeats = 2 if session.quick else 5
    rows: dict[str, Any] = {}
    with browsing(web) as fresh:
        with fresh() as page:
            paths = addresses(page, web.url, incident)
        with session.progress("pages", len(paths) * repeats) as step:
            measured: dict[str, list[float]] = {name: [] for name in paths}
            for _ in range(repeats):
                for name, path in paths.items():
                    with fresh() as page:
                        page.goto(web.url + path, wait_until="commit")
                        page.wait_for_function("() => window.usefulAt")
                        measured[name].append(page.evaluate("() => window.usefulAt"))
                    step()
            rows = {name: summary(values) for name, values in measured.items()}
    report.results["first_useful_paint_ms"] = rows
    slowest = max(rows, key=lambda name: rows[name]["median"])
    title = f"first useful paint of the slowest of {len(rows)} pages, {slowest} (median, ms)"
    report.criteria.append(at_most(title, rows[slowest]["median"], BOUND_MS))
    table = Table(title=f"First useful paint (ms, {repeats} times each, empty cache)", title_justify="left")
    for column in ("page", "median", "highest"):
        table.add_column(column, justify="left" if column == "page" else "right")
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["median"]):
        table.add_row(name, f"{row['median']:,.0f}", f"{row['highest']:,.0f}")
    report.tables.append(table)


def graphs(session: Session, report: Report, web: Web) -> None:
    """Frame times while a graph of 1,000 partitions is dragged and zoomed, at rest and while the whole fleet
    reports."""
    rows: dict[str, Any] = {}
    with browsing(web) as fresh, session.progress("graphs", 4) as step:
        for name, label in (("region-1", "1,000 partitions, 56 operators"), ("flat", "1,000 operators")):
            with fresh() as page:
                page.goto(f"{web.url}/topologies/{name}/", wait_until="commit")
                page.wait_for_selector(".graph .box")
                drawn = page.evaluate("() => performance.now()")
                rows[label] = {"drawn_after_ms": round(drawn), **_moved(page)}
                step()
                with ingesting():
                    page.wait_for_timeout(3_000)
                    rows[f"{label}, whole fleet reporting"] = {"drawn_after_ms": None, **_moved(page)}
                step()
    report.results["graph"] = rows
    for name, row in rows.items():
        if "reporting" not in name:
            title = f"p95 of frames while the graph moves, {name} (ms)"
            report.criteria.append(at_most(title, row["p95"], FRAME_MS))
    table = Table(
        title="Moving the graph (ms between pictures, drawn by the processor)", title_justify="left"
    )
    for column in ("graph", "drawn after", "median", "p95", "highest"):
        table.add_column(column, justify="left" if column == "graph" else "right")
    for name, row in rows.items():
        drawn_after = "" if row["drawn_after_ms"] is None else f"{row['drawn_after_ms']:,}"
        figures = (f"{row[column]:,.0f}" for column in ("median", "p95", "highest"))
        table.add_row(name, drawn_after, *figures)
    report.tables.append(table)


def _moved(page: Any) -> dict[str, float]:
    """Drag the graph to and fro and zoom it in and out with the wheel."""
    box = page.locator(".graph > svg").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 24  # above the boxes: there a drag moves the graph
    page.evaluate(FRAMES)
    page.mouse.move(x, y)
    page.mouse.down()
    for i in range(60):
        page.mouse.move(x + 4 * (i if i < 30 else 60 - i), y + (i if i < 30 else 60 - i))
        page.wait_for_timeout(16)
    page.mouse.up()
    page.keyboard.down("Control")
    for i in range(40):
        page.mouse.wheel(0, -40 if i < 20 else 40)
        page.wait_for_timeout(16)
    page.keyboard.up("Control")
    frames = page.evaluate("() => { window.recording = false; return window.frames; }")[1:]
    return {
        "frames": len(frames),
        "median": round(statistics.median(frames), 1),
        "p95": round(percentile(frames, 0.95), 1),
        "highest": round(max(frames), 1),
    }
