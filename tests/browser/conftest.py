"""A seeded server with its own Redis, and a signed-in page."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.chromium import LAUNCH, sign_in
from tests.browser.serve import PASSWORD, USER


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """The web server in a process of its own, which a test may stop and start again."""

    home: Path
    redis: str
    scenario: str
    still: bool = False
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.browser.serve", "--scenario", self.scenario]
        command += ["--port", str(self.port), "--home", str(self.home), "--redis", self.redis]
        with (self.home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command + (["--still"] if self.still else []),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/login/", timeout=2):  # noqa: S310 - our own server
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.home / "server.log").read_text()[-4000:]) from None
                time.sleep(0.2)

    def stop(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture(scope="package")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    home = tmp_path_factory.mktemp("redis")
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    yield f"redis://127.0.0.1:{port}/0"
    os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _server(home: Path, redis: str, scenario: str, *, still: bool) -> Iterator[Server]:
    server = Server(home, redis, scenario, still)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def healthy(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Server]:
    """Two topologies that run well, and change each second."""
    yield from _server(tmp_path_factory.mktemp("healthy"), redis_url, "healthy", still=False)


@pytest.fixture(scope="package")
def broken(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Server]:
    """An incident in the middle of its recovery; nothing changes by itself."""
    yield from _server(tmp_path_factory.mktemp("broken"), redis_url, "broken", still=True)


@pytest.fixture(scope="package")
def waves(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Server]:
    """Two waves have caught up, the third one replays, and some partitions are in no plan."""
    yield from _server(tmp_path_factory.mktemp("waves"), redis_url, "waves", still=True)


@pytest.fixture(scope="package")
def recovered(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Server]:
    """The same, 50 minutes after it was over."""
    yield from _server(tmp_path_factory.mktemp("recovered"), redis_url, "recovered", still=True)


@pytest.fixture
def proposed(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Server]:
    """The second wave waits for an approval; each test has one of its own."""
    yield from _server(tmp_path_factory.mktemp("proposed"), redis_url, "proposed", still=True)


@pytest.fixture(scope="package")
def empty(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Server]:
    """An installation on its first day."""
    yield from _server(tmp_path_factory.mktemp("empty"), redis_url, "empty", still=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(15_000)
    yield context.new_page()
    context.close()


def enter(page: Any, server: Server, path: str = "/", *, user: str = USER) -> None:
    """Sign in and open a page; returns once it shows state and is live."""
    sign_in(page, server.url, user, PASSWORD)
    page.goto(server.url + path)
    page.wait_for_selector(".freshness.good")
