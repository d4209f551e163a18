"""Pictures of every page in light, dark and phone:

    python -m tests.browser.screenshots --url http://127.0.0.1:8000 --user admin --password ... --out DIR

The pages are those of the running installation: of its first topology and its newest incident. Prints what
the browser complained about (violations of the content security policy, script errors) and fails if it did.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.chromium import LAUNCH, sign_in

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "light",
        "device_scale_factor": 2,
        "has_touch": True,
    },
}


def addresses(snapshot: dict[str, Any]) -> dict[str, str]:
    """Name of the picture to path, from what exists."""
    found = {"fleet": "/", "nodes": "/nodes/", "incidents": "/incidents/", "missing": "/nodes/none/such/"}
    entities = snapshot["entities"]
    at_rest = ("stopped", "completed", "draft")
    live = sorted(entities["topology"].values(), key=lambda t: (t["status"] in at_rest, t["name"]))
    if live:
        name = live[0]["name"]
        operators = live[0]["graph"]["operators"]
        outputs = [operator["name"] for operator in operators if operator["output"]]
        found["topology"] = f"/topologies/{name}/"
        for tab in ("operators", "nodes", "checkpoints", "recovery", "errors"):
            found[f"topology-{tab}"] = f"/topologies/{name}/?tab={tab}"
        if outputs:
            found["topology-operator"] = f"/topologies/{name}/?operator={outputs[-1]}"
    if entities["incident"]:
        newest = max(map(int, entities["incident"]))
        found["incident"] = f"/incidents/{newest}/"
        waves = [key for key, plan in entities["plan"].items() if plan["incident"] == newest]
        if waves:
            found["incident-wave"] = f"/incidents/{newest}/?wave={waves[0]}"
    found["what-if"] = "/what-if/"
    racks = sorted({node["rack"] for node in entities["node"].values() if node["state"] == "alive"})
    if racks:
        found["what-if-answer"] = f"/what-if/?racks={racks[-1]}&arrivals=at:30,45,60,90&show=best_density"
    return found


def listen(page: Any, complaints: list[str]) -> None:
    """Collect what the browser complains about."""

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", console)
    page.on("pageerror", lambda error: complaints.append(str(error)))


def picture(url: str, user: str, password: str, out: Path, only: str | None = None) -> list[str]:
    """Write the pictures; returns the browser's complaints."""
    out.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        for look, options in LOOKS.items():
            context = browser.new_context(**options)
            page = context.new_page()
            listen(page, complaints)
            page.goto(f"{url}/login/")
            page.screenshot(path=out / f"login-{look}.png")
            sign_in(page, url, user, password)
            snapshot = page.request.get(f"{url}/api/v1/snapshot/").json()
            for name, path in addresses(snapshot).items():
                if only and only not in name:
                    continue
                page.goto(url + path)
                page.wait_for_selector("main:not(:has(.skeleton))")
                if name.startswith("topology"):
                    page.wait_for_selector(".graph .box", timeout=10_000)
                if name == "what-if-answer":
                    page.wait_for_selector(".answer, .empty.bad", timeout=30_000)
                page.wait_for_timeout(700)
                page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
            if not only:
                page.goto(url)
                page.wait_for_selector("main:not(:has(.skeleton))")
                page.keyboard.press("Control+k")
                page.wait_for_timeout(200)
                page.screenshot(path=out / f"palette-{look}.png")
                page.keyboard.press("Escape")
                page.keyboard.press("?")
                page.wait_for_timeout(200)
                page.screenshot(path=out / f"help-{look}.png")
                page.keyboard.press("Escape")
                page.goto(f"{url}/nodes/")
                page.wait_for_selector("main:not(:has(.skeleton))")
                page.wait_for_timeout(700)
                buttons = page.locator("button:has-text('Fail node'):not([aria-disabled])")
                if buttons.count():
                    buttons.nth(2).click()
                    page.wait_for_timeout(200)
                    page.screenshot(path=out / f"dialog-{look}.png")
            context.close()
        browser.close()
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--out", type=Path, default=Path("tests/browser/output"))
    parser.add_argument("--only", help="pictures whose name contains this")
    arguments = parser.parse_args()
    complaints = picture(
        arguments.url.rstrip("/"), arguments.user, arguments.password, arguments.out, arguments.only
    )
    for complaint in sorted(set(complaints)):
        print("browser:", complaint)
    print(f"{len(list(arguments.out.glob('*.png')))} pictures in {arguments.out}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
