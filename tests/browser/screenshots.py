"""Pictures of the dashboard, light and dark, at desk, tablet and phone width, in every state it can be in:

    python -m tests.browser.screenshots --out pictures
    python -m tests.browser.screenshots --only checkpoint --state broken --look dark

starts installations with seeded rows itself: every view of one that is empty, healthy or in an incident, and
the views that differ of one whose plan waits for approval, whose queries go on with tentative output
meanwhile, whose incident was aborted, of which a node is drained, and which the page has lost. `--url`,
`--user` and `--password` take those of a running one instead. Prints what the browser complained about
(violations of the content security policy, script errors) and fails if it did.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from rich.progress import track

from harness.chromium import LAUNCH, sign_in
from tests.browser.serve import PASSWORD, SCENARIOS, USER
from tests.browser.servers import Server, seeded, template
from tests.browser.tour import FRAMES, GO, Stop, listen, stops, visit

STATES = ("empty", "healthy", "broken", "proposed", "tentative", "aborted", "moved", "bounded", "offline")
WHOLE = ("empty", "healthy", "broken", "running")
FEW = ("fleet", "topology", "topology-settings", "nodes", "incidents", "incident", "incident-wave")
"""The views that differ in the other states."""
EXPECTED = "409"
"""What-if is refused while something is being recovered, and a browser logs every refusal."""

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "tablet": {"viewport": {"width": 820, "height": 1180}, "color_scheme": "light", "has_touch": True},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "light",
        "device_scale_factor": 2,
        "has_touch": True,
    },
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}
KIOSK = {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"}


class Photographer:
    """Writes `<out>/<state>/<view>-<look>.png`."""

    def __init__(self, browser: Any, out: Path, only: str, looks: Collection[str]) -> None:
        self.browser, self.out, self.only, self.looks = browser, out, only, looks
        self.complaints: list[str] = []
        self.taken = 0

    def shoot(self, url: str, user: str, password: str, state: str) -> None:
        for look in self.looks:
            context = self.browser.new_context(**LOOKS[look])
            page = context.new_page()
            listen(page, self.complaints)
            page.goto(f"{url}/login/")
            if state in WHOLE:
                self._take(page, state, "login", look)
            sign_in(page, url, user, password)
            found = [*stops(page.request.get(f"{url}/api/v1/snapshot/").json())]
            wanted = [one for one in found if state in WHOLE or one.name in FEW]
            for stop in track([one for one in wanted if self.only in one.name], f"{state}, {look}"):
                self._visit(page, stop, state, look)
            context.close()
        if "dark" in self.looks and state in WHOLE:
            self._wall(url, user, password, state)

    def shoot_lost(self, server: Server) -> None:
        """What pages show once the server answers nothing any more."""
        for look in self.looks:
            context = self.browser.new_context(**LOOKS[look])
            page = context.new_page()
            sign_in(page, server.url, USER, PASSWORD)
            every = stops(page.request.get(f"{server.url}/api/v1/snapshot/").json())
            seen = [one for one in every if one.name in FEW and self.only in one.name]
            for stop in seen:  # the code of a page is loaded with the first visit
                visit(page, stop)
            server.freeze()
            try:
                page.wait_for_selector("aside.outdated:has-text('Actions are off')")
                for stop in seen:
                    page.evaluate(GO, stop.path)
                    page.evaluate(FRAMES)
                    self._take(page, "offline", stop.name, look, whole=True)
            finally:
                server.thaw()
            context.close()

    def _visit(self, page: Any, stop: Stop, state: str, look: str) -> None:
        visit(page, stop)
        whole = not page.locator("dialog[open]").count()
        self._take(page, state, stop.name, look, whole=whole)

    def _wall(self, url: str, user: str, password: str, state: str) -> None:
        """The fleet on a wall display."""
        context = self.browser.new_context(**KIOSK)
        page = context.new_page()
        listen(page, self.complaints)
        sign_in(page, url, user, password)
        visit(page, Stop("kiosk", "/?kiosk=1"))
        self._take(page, state, "kiosk", "dark")
        context.close()

    def _take(self, page: Any, state: str, name: str, look: str, *, whole: bool = False) -> None:
        if self.only not in name:
            return
        directory = self.out / state
        directory.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=directory / f"{name}-{look}.png", full_page=whole, animations="disabled")
        self.taken += 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("tests/browser/output"))
    parser.add_argument(
        "--state", choices=(*SCENARIOS, "offline"), action="append", help="by default those above"
    )
    parser.add_argument("--look", choices=tuple(LOOKS), action="append")
    parser.add_argument("--only", default="", help="views whose name contains this")
    parser.add_argument("--url", help="a running installation instead")
    parser.add_argument("--user", default=USER)
    parser.add_argument("--password", default=PASSWORD)
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        photographer = Photographer(browser, arguments.out, arguments.only, arguments.look or tuple(LOOKS))
        if arguments.url:
            photographer.shoot(arguments.url.rstrip("/"), arguments.user, arguments.password, "running")
        else:
            with tempfile.TemporaryDirectory(prefix="resurge-pictures-") as home:
                _shoot_seeded(photographer, Path(home), arguments.state or STATES)
        browser.close()
    complaints = sorted({one for one in photographer.complaints if EXPECTED not in one})
    for complaint in complaints:
        print("browser:", complaint)
    print(f"{photographer.taken} pictures in {arguments.out}")
    return 1 if complaints else 0


def _shoot_seeded(photographer: Photographer, home: Path, states: Collection[str]) -> None:
    made = template(home / "template")
    for state in states:
        scenario = "healthy" if state == "offline" else state
        server = seeded(home / state, made, scenario, still=False)
        server.start()
        try:
            if state == "offline":
                photographer.shoot_lost(server)
            else:
                photographer.shoot(server.url, USER, PASSWORD, state)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
