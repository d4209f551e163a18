"""The seeded web server of the browser tests, in a separate process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.browser.serve import OTHERS, USER, session_of
from tests.browser.servers import free_port

PATIENCE = 120.0


class Server:
    """Answers at `url` until it is stopped; its database is below `home`. It has no Redis, so it looks for
    events twice a second."""

    def __init__(self, home: Path, scenario: str) -> None:
        self.home = home
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._address = ("127.0.0.1", port)
        log = home / "server.log"
        command = [sys.executable, "-m", "tests.browser.serve", "--still", "--hold", "--scenario", scenario]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--port", str(port), "--home", str(home)],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(log.read_text()[-4000:])
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(self._address) == 0


def token_make(url: str, user: str) -> str:
    """A token of a seeded user, made as a page makes one, with the session that exists from the start."""
    cookies = {"sessionid": session_of(user), "csrftoken": "c" * 32}
    headers = {"Referer": url, "X-CSRFToken": cookies["csrftoken"]}
    body = {"reason": "tests"}
    answer = httpx.post(f"{url}/api/v1/tokens/", json=body, cookies=cookies, headers=headers, timeout=60)
    return str(answer.raise_for_status().json()["token"])


def tokens_make(server: Server) -> dict[str, str]:
    """Tokens by role."""
    users = {"administrator": USER, **{name: name for name in OTHERS}}
    return {role: token_make(server.url, user) for role, user in users.items()}


def rest_client(server: Server, tokens: dict[str, str]) -> httpx.Client:
    """A client of REST with an administrator's token."""
    headers = {"Authorization": f"Bearer {tokens['administrator']}"}
    return httpx.Client(base_url=f"{server.url}/api/v1/", headers=headers, timeout=60)
