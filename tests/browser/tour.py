"""Every view of the dashboard for pictures and checks, and how to open it without a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SETTLED = "main:not(:has(.skeleton)):not(:has([aria-busy=true]))"
GO = """(path) => {
  if (path !== location.pathname + location.search) history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}"""
PARTS = ".details :is(.parts, .forgotten)"
"""Of a checkpoint; they are kept of the newest 50, and a server that runs for long has more."""
OPERATOR_TABS = {
    "charts": ":is(figure, .empty)",
    "configuration": "section[aria-label=Parameters]",
    "rows": ".origin",
    "errors": ":is(article, .empty)",
    "log": ".note",
}
"""Tabs of the panel of an operator, each with what it shows when its answer is there."""
FRAMES = """() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done()));
  setTimeout(done, 1000);
})"""
"""Wait for two frames. A headless browser sometimes draws none while nothing changes."""


@dataclass(frozen=True)
class Stop:
    """A view. `ready`: selector of an element that exists when the view is complete. `prepare` opens parts
    that have no address."""

    name: str
    path: str
    ready: str = SETTLED
    prepare: Callable[[Any], None] | None = None


def stops(snapshot: dict[str, Any]) -> Iterator[Stop]:
    """All views of this installation: every page with its tabs, selections and dialogs."""
    entities = snapshot["entities"]
    yield Stop("fleet", "/")
    healths = {one["health"]["state"] for one in entities["topology"].values()}
    if "running" in healths <= {"running", "completed"}:
        yield Stop("guide", "/", ready="section.guide", prepare=_guide)
    yield from _topology(entities)
    yield Stop("nodes", "/nodes/")
    alive = sorted(name for name, node in entities["node"].items() if node["state"] == "alive")
    if alive:
        yield Stop("node", f"/nodes/?node={alive[0]}", ready="tr.detail :is(figure, .empty)")
        yield Stop("dialog-drain", "/nodes/", prepare=lambda page: _ask(page, alive[0], "Drain"))
    yield from _incidents(entities)
    yield Stop("checkpoints", "/checkpoints/")
    states = {checkpoint["state"]: key for key, checkpoint in entities["checkpoint"].items()}
    for state, key in sorted(states.items()):
        yield Stop(f"checkpoint-{state}", f"/checkpoints/?checkpoint={key}", ready=PARTS)
    yield from _alerts(entities)
    yield from _what_if(entities)
    yield Stop("audit", "/audit/", ready=f"{SETTLED} section[aria-label=Trail] :is(tbody tr, .empty)")
    if entities["node"]:
        yield Stop("audit-entry", "/audit/?action=topology.policy", prepare=_unfold)
        yield Stop("faults-chosen", f"/faults/?nodes={','.join(alive[:2])}")
    yield Stop("settings", "/settings/", ready="section[aria-label='Detecting failures'] li")
    for tab in ("policies", "tokens", "appearance", "administration"):
        yield Stop(f"settings-{tab}", f"/settings/?tab={tab}")
    if entities["topology"]:
        written = f"{SETTLED} section[aria-label=Check]:has-text('valid')"
        yield Stop("editor", f"/editor/?topology={min(entities['topology'])}", ready=written)
    yield Stop("editor-new", "/editor/", ready="section[aria-label=Check]:has-text('problem')")
    yield Stop("missing", "/nodes/none/such/")
    yield Stop("palette", "/", ready="dialog[open] li", prepare=lambda page: page.keyboard.press("Control+k"))
    yield Stop("help", "/", ready="dialog[open] dl", prepare=lambda page: page.keyboard.press("?"))


def _topology(entities: dict[str, Any]) -> Iterator[Stop]:
    at_rest = ("stopped", "completed", "draft")
    live = sorted(entities["topology"].values(), key=lambda t: (t["status"] in at_rest, t["name"]))
    if not live:
        return
    name = live[0]["name"]
    drawn = ".graph .box"
    outputs = [operator["name"] for operator in live[0]["graph"]["operators"] if operator["output"]]
    yield Stop("topology", f"/topologies/{name}/", ready=drawn)
    if "rebalance" not in live[0]["refusals"]:
        yield Stop("dialog-rebalance", f"/topologies/{name}/", ready="dialog[open]", prepare=_even_out)
    for tab in ("operators", "charts", "nodes", "checkpoints", "replication", "errors", "settings"):
        yield Stop(f"topology-{tab}", f"/topologies/{name}/?tab={tab}", ready=drawn)
    yield Stop("topology-version", f"/topologies/{name}/?tab=settings&version=2", ready=".versions pre")
    yield Stop("topology-operator", f"/topologies/{name}/?operator={outputs[-1]}", ready="aside.panel")
    for panel, ready in OPERATOR_TABS.items():
        path = f"/topologies/{name}/?operator={outputs[-1]}&panel={panel}"
        yield Stop(f"operator-{panel}", path, ready=f"aside.panel {ready}")


def _incidents(entities: dict[str, Any]) -> Iterator[Stop]:
    yield Stop("incidents", "/incidents/")
    if not entities["incident"]:
        return
    newest = max(map(int, entities["incident"]))
    yield Stop("incident", f"/incidents/{newest}/")
    waves = [key for key, plan in entities["plan"].items() if plan["incident"] == newest]
    if waves:
        yield Stop("incident-wave", f"/incidents/{newest}/?wave={waves[0]}", ready="section.details")


def _alerts(entities: dict[str, Any]) -> Iterator[Stop]:
    yield Stop("alerts", "/alerts/")
    yield Stop(
        "dialog-silence",
        "/alerts/",
        ready="dialog[open] select",
        prepare=lambda page: _press(page, "Silence…"),
    )
    yield Stop(
        "dialog-rule", "/alerts/", ready="dialog[open] input", prepare=lambda page: _press(page, "New rule…")
    )


def _what_if(entities: dict[str, Any]) -> Iterator[Stop]:
    yield Stop("what-if", "/what-if/")
    yield Stop("faults", "/faults/")
    racks = sorted({node["rack"] for node in entities["node"].values() if node["state"] == "alive"})
    if racks:
        path = f"/what-if/?racks={racks[-1]}&arrivals=at:30,45,60,90&show=best_density"
        yield Stop("what-if-answer", path, ready=".answer, .empty.bad")


def _ask(page: Any, node: str, button: str) -> None:
    page.click(
        f"section[aria-label='All nodes'] tr:has(button:text-is('{node}')) button:has-text('{button}')"
    )
    page.wait_for_selector("dialog[open]")


def _guide(page: Any) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("guided tour")
    page.click("dialog[open] li:has-text('Take the guided tour')")


def _press(page: Any, button: str) -> None:
    page.click(f"main button:text-is('{button}')")


def _even_out(page: Any) -> None:
    page.click("main button:text-is('Rebalance partitions')")


def _unfold(page: Any) -> None:
    page.wait_for_selector(f"{SETTLED} section[aria-label=Trail] :is(tbody tr, .empty)")
    for button in page.locator("section[aria-label=Trail] tbody tr button[aria-expanded]").all()[:1]:
        button.click()
        page.wait_for_selector("tr.detail")


def visit(page: Any, stop: Stop, *, patience: float = 60_000) -> None:
    """Close dialogs and the guided tour, go to the view without a reload, and wait until it is complete."""
    while page.locator("dialog[open]").count():
        page.keyboard.press("Escape")
        page.evaluate(FRAMES)
    for leave in page.locator("section.guide button[title='Leave the tour']").all():
        leave.click()
    page.evaluate(GO, stop.path)
    try:
        page.wait_for_selector(SETTLED, timeout=patience)
        if stop.prepare is not None:
            stop.prepare(page)
        page.wait_for_selector(stop.ready, timeout=patience)
    except Exception as error:
        error.add_note(f"the page {stop.path} showed:\n{page.inner_text('body')[:3_000]}")
        raise
    page.evaluate(FRAMES)


def listen(page: Any, complaints: list[str]) -> None:
    """Collect the errors that the browser logs: violations of the policy, script errors, failed requests."""

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", console)
    page.on("pageerror", lambda error: complaints.append(str(error)))
