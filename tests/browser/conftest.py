"""Seeded servers with a Redis of their own, one browser, and pages that need no login each."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from harness.chromium import LAUNCH
from tests.browser.serve import USER, session_of
from tests.browser.servers import Server, free_port, seeded, template
from tests.browser.tour import SETTLED

PATIENCE = 60_000
"""Milliseconds. Every wait is for a state, so on a slow machine tests take longer and check the same."""

EMPTY = "empty"
RECENT = 240.0
"""Seconds."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """If a test fails and a server does not answer, report what its threads are doing."""
    report = yield
    if report.failed:
        for server in Server.running:
            if not server.answers():
                report.sections.append((f"{server.scenario} does not answer", server.threads()))
    return report


@pytest.fixture(scope="package")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    home = tmp_path_factory.mktemp("redis")
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    yield f"redis://127.0.0.1:{port}/0"
    os.killpg(process.pid, signal.SIGTERM)
    process.wait()


Serving = Callable[..., Iterator[Server]]


class Templates:
    """Homes that servers begin with. Seeding takes most of the time of a start; a seeded home is copied for
    as long as its times, which are relative to when it was seeded, are recent."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._made: dict[str, tuple[Path, float]] = {}

    def find(self, scenario: str) -> Path:
        path, at = self._made.get(scenario, (None, 0.0))
        if path is None or (scenario != EMPTY and time.monotonic() - at > RECENT):
            tables = None if scenario == EMPTY else self.find(EMPTY)
            path = template(self._directories.mktemp("template"), scenario, made=tables)
            self._made[scenario] = path, time.monotonic()
        return path


@pytest.fixture(scope="package")
def serving(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Serving:
    """Starts a server of a scenario, and stops it at the end of the fixture that uses it."""
    templates = Templates(tmp_path_factory)

    def serve(scenario: str, *, still: bool = True, again: bool = False) -> Iterator[Server]:
        made = templates.find(scenario if again else EMPTY)
        server = seeded(tmp_path_factory.mktemp(scenario), made, scenario, still=still, redis=redis_url)
        server.start()
        yield server
        server.stop()

    return serve


@pytest.fixture(scope="package")
def healthy(serving: Serving) -> Iterator[Server]:
    """Two healthy topologies, whose metrics change each second."""
    yield from serving("healthy", still=False, again=True)


@pytest.fixture(scope="package")
def broken(serving: Serving) -> Iterator[Server]:
    """Two waves have caught up, the third one replays, some partitions are in no plan; no metrics change."""
    yield from serving("broken")


@pytest.fixture(scope="package")
def recovered(serving: Serving) -> Iterator[Server]:
    """The same incident, 50 minutes after its end."""
    yield from serving("recovered")


@pytest.fixture(scope="package")
def moved(serving: Serving) -> Iterator[Server]:
    """A node is being drained: its partitions have moved, and no checkpoint has verified it yet."""
    yield from serving("moved")


@pytest.fixture(scope="package")
def bounded(serving: Serving) -> Iterator[Server]:
    """Healthy, and `trending` has a bounded guarantee; no metrics change."""
    yield from serving("bounded")


@pytest.fixture(scope="package")
def empty(serving: Serving) -> Iterator[Server]:
    """An empty installation."""
    yield from serving("empty")


@pytest.fixture
def proposed(serving: Serving) -> Iterator[Server]:
    """The second wave waits for an approval; each test has a server of its own."""
    yield from serving("proposed", again=True)


@pytest.fixture
def spare(serving: Serving) -> Iterator[Server]:
    """A healthy server of its own for each test, which may change it."""
    yield from serving("healthy", again=True)


@pytest.fixture(scope="package")
def large(serving: Serving) -> Iterator[Server]:
    """Two topologies of 1,000 partitions each, and 40 nodes."""
    yield from serving("large")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Makes pages, each in a context of its own; options are those of a browser context."""
    contexts: list[Any] = []

    def make(**options: Any) -> Any:
        usual = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(**{**usual, **options})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        return context.new_page()

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Any]) -> Any:
    return new_page()


def enter(page: Any, server: Server, path: str = "/", *, user: str = USER) -> None:
    """Open a page as `user`; returns once it shows state and is live."""
    # A page that asks between two sessions is sent to sign in, which would end the visit that begins here.
    page.goto("about:blank")
    page.context.clear_cookies()
    page.context.add_cookies([{"name": "sessionid", "value": session_of(user), "url": server.url}])
    page.goto(server.url + path)
    page.wait_for_selector(".freshness.good")
    page.wait_for_selector(SETTLED)
