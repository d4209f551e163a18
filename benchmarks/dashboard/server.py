"""The web server and its Redis, as an installation runs them, and a signed-in client."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

from host.environment import ROOT
from supervision.installation import Installation, compose
from supervision.ports import LOOPBACK, choose
from supervision.program import Program
from supervision.programs import control_programs, server_programs

USER, PASSWORD = "benchmark", "only-for-this-benchmark"
START_SECONDS = 180.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def installation_compose(home: Path) -> Installation:
    """An installation in `home` on free ports; its variables become those of this process as well."""
    os.environ["RESURGE_HOME"] = str(home)
    os.environ["RESURGE_PORT"] = str(choose(home / "run" / "web-port.json", ("web",))["web"])
    os.environ["RESURGE_LOG_LEVEL"] = "WARNING"
    # The client uses plain HTTP: there is no proxy for TLS, even if the shell has RESURGE_HTTPS=1.
    os.environ["RESURGE_HTTPS"] = "0"
    installation = compose(home)
    os.environ.update(installation.variables)
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.config.settings"
    return installation


@contextmanager
def redis_running(installation: Installation) -> Iterator[None]:
    (program,) = server_programs(
        installation.home, installation.ports, installation.settings, names=("redis",)
    )
    with _running(program, installation):
        yield


@contextmanager
def web_running(installation: Installation) -> Iterator[Web]:
    """The web server; its log is `log/web.log`."""
    (program,) = (one for one in control_programs(installation) if one.name == "web")
    with _running(program, installation) as process:
        yield Web(port=installation.settings.port, pid=process.pid)


@dataclass(frozen=True, slots=True)
class Web:
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def sign_in(self) -> Client:
        return Client(self.port)

    def memory(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """CPU seconds a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Client:
    """A signed-in browser, as far as HTTP goes: one connection that is kept, and answers compressed."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
        self._cookies: dict[str, str] = {}
        self._call("GET", "/login/")
        form = {"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": self._cookies["csrftoken"]}
        status, _ = self._call(
            "POST",
            "/login/",
            urlencode(form).encode(),
            {"Content-Type": "application/x-www-form-urlencoded", "Referer": f"http://{LOOPBACK}:{port}/"},
        )
        if status != 302:
            raise RuntimeError(f"signing in was answered with {status}")

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self._cookies.items())

    def get(self, path: str) -> tuple[float, int]:
        """Seconds until the whole answer was there, and its bytes as they were sent. `path` is below
        ``/api/v1/``. Raises `RuntimeError` for anything but 200."""
        started = time.perf_counter()
        status, body = self._call("GET", f"/api/v1/{path}")
        seconds = time.perf_counter() - started
        if status != 200:
            raise RuntimeError(f"{path} was answered with {status}: {body[:300]!r}")
        return seconds, len(body)

    def _call(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        sent = {"Accept-Encoding": "gzip, deflate", "Cookie": self.cookie, **(headers or {})}
        self._connection.request(method, path, body, sent)
        answer = self._connection.getresponse()
        content = answer.read()
        for name, value in answer.getheaders():
            if name.lower() == "set-cookie":
                self._cookies |= {key: one.value for key, one in SimpleCookie(value).items()}
        return answer.status, content


@contextmanager
def _running(program: Program, installation: Installation) -> Iterator[subprocess.Popen[bytes]]:
    log = installation.logs / f"{program.name}.log"
    environment = {**os.environ, **installation.variables, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            program.command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not program.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{program.name} does not serve; its log is {log}")
            time.sleep(0.2)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
