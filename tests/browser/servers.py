"""Seeded servers that start quickly: forked from one process that has imported everything already."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import shutil
import signal
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import ClassVar

from tests.browser.serve import NO_REDIS, configure, fill, prepare, serve, variables

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.browser.preloaded"])
START = 90.0
PARENT_DEATH_SIGNAL = 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def template(home: Path, scenario: str = "empty", *, made: Path | None = None) -> Path:
    """A template of a home, with tables, users and what the scenario has. `made` is an empty one to begin
    with."""
    if made is not None:
        shutil.copytree(made, home, dirs_exist_ok=True)
    process = _context.Process(target=_prepare, args=(home, scenario))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError((home / "server.log").read_text()[-4000:])
    return home


@dataclass
class Server:
    """The web server in a process of its own, which may be stopped and started again."""

    home: Path
    scenario: str
    still: bool = False
    redis: str = NO_REDIS
    port: int = field(default_factory=free_port)
    process: ForkServerProcess | None = None
    running: ClassVar[list[Server]] = []
    """All servers that are running."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """For another process of the same installation."""
        return {**os.environ, **variables(self.home, port=self.port, redis=self.redis)}

    def start(self) -> None:
        """Wait until it answers. Raises `RuntimeError` with the end of its log."""
        self.process = _context.Process(
            target=_run, args=(self.home, self.scenario, self.port, self.still, self.redis)
        )
        self.process.start()
        self.running.append(self)
        deadline = time.monotonic() + START
        while True:
            if self.answers():
                return
            if not self.process.is_alive() or time.monotonic() > deadline:
                raise RuntimeError((self.home / "server.log").read_text()[-4000:])
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether it answers within a few seconds."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):  # noqa: S310 - our own server
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def freeze(self) -> None:
        """Its connections stay open, and it answers nothing, as behind a network that drops all packets."""
        os.kill(self._pid(), signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._pid(), signal.SIGCONT)

    def _pid(self) -> int:
        if self.process is None or self.process.pid is None:
            raise RuntimeError("it does not run")
        return self.process.pid

    def threads(self) -> str:
        """The stack of each of its threads, for a report about a server that does not answer."""
        log = self.home / "server.log"
        begin = log.stat().st_size
        if self.process is None or self.process.pid is None or not self.process.is_alive():
            return "it has ended"
        os.kill(self.process.pid, signal.SIGUSR1)
        time.sleep(0.5)
        return log.read_text(errors="replace")[begin:]

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None
            self.running.remove(self)


def seeded(home: Path, made: Path, scenario: str, *, still: bool, redis: str = NO_REDIS) -> Server:
    """A server of its own in `home`, which begins as a copy of the template `made`, empty or of the
    scenario."""
    shutil.copytree(made, home, dirs_exist_ok=True)
    return Server(home, scenario, still, redis)


def _prepare(home: Path, scenario: str) -> None:
    _log(home)
    configure(home)
    prepare()
    fill(scenario)
    from django.db import connection

    connection.close()  # moves the database's log into its file, which is copied


def _run(home: Path, scenario: str, port: int, still: bool, redis: str) -> None:
    # Linux: when the process of the tests is killed, its servers are killed too.
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    _log(home)
    faulthandler.register(signal.SIGUSR1)
    configure(home, port=port, redis=redis)
    serve(scenario, port, still=still)


def _log(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    log = os.open(home / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(log, standard)
