"""Pages and command line throughout a real incident: a rack of the demo is killed, and no two places show
something else at the same sequence number, in any frame."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from harness.chromium import sign_in
from harness.eventually import eventually
from supervision.access import Access
from supervision.rest import Rest
from tests.browser.frames import REACHED, WATCH, Seen, command_line, frames_of

pytestmark = pytest.mark.integration

PATHS = ("/", "/topologies/hashtags/", "/nodes/")
LEAST = 500
"""Comparisons."""


def test_no_two_places_contradict_each_other_in_a_real_incident(
    demo: Access, new_page: Callable[[], Any]
) -> None:
    url, rest = demo.url.rstrip("/"), Rest(demo.url, demo.token)
    pages: dict[str, Any] = {path: new_page() for path in (*PATHS, "/incidents/1/")}
    sign_in(pages["/"], url, demo.user, demo.password)
    for path, page in pages.items():
        page.goto(url + path)
        page.wait_for_selector(".freshness.good")
        page.evaluate(WATCH)
    seen, frames = Seen(), 0
    for name in ("node-2", "node-4"):
        rest.post(f"nodes/{name}/fail/", {"reason": "no two places contradict each other"})

    def looked() -> bool:
        nonlocal frames
        seen.add("command line", *command_line(demo.url, demo.token))
        frames += 1
        incidents = rest.listing("incidents/")
        return bool(incidents) and all(one["health"]["state"] == "recovered" for one in incidents)

    eventually(looked, "the end of the incident", timeout=300.0, pause=1.0)
    sequence, _ = command_line(demo.url, demo.token)
    shown = {}
    for path, page in pages.items():
        page.wait_for_function(REACHED, arg=sequence)
        shown[path] = frames_of(page)
        for frame in shown[path]:
            seen.add(path, *frame)
    counted = {path: len(found) for path, found in shown.items()}
    print(
        f"\n{seen.compared()} comparisons; frames: {frames} of the command line, {counted}", file=sys.stderr
    )
    assert not [*seen.contradictions()]
    about = {about.split(" ")[0] for _, about in seen.told}
    assert about == {"topology", "available", "query", "node", "nodes", "incident", "incidents"}
    assert seen.compared() > LEAST
