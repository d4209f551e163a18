"""Runs `resurge` in this process or on a pseudo-terminal, with a connection to the server that tests can
cut."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pyte

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def newest(rest: httpx.Client) -> int:
    """The number of the newest event."""
    return int(rest.get("events/?newest=true&limit=1").json()["last_sequence"])


class Terminal:
    """`resurge` on a pseudo-terminal, as a user at a keyboard has it. `screen` is what the user sees."""

    def __init__(
        self, *arguments: str, variables: dict[str, str], columns: int = 100, rows: int = 40
    ) -> None:
        self.written = ""
        self.code: int | None = None
        self._display = pyte.Screen(columns, rows)
        self._emulator = pyte.ByteStream(self._display)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:  # pragma: no cover - the other process
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell sets it to be ignored in background jobs
            os.chdir(ROOT)
            os.environ.update(variables, TERM="xterm-256color", COLUMNS=str(columns), LINES=str(rows))
            os.execv(sys.executable, [sys.executable, "-m", "cli", *arguments])  # noqa: S606
        ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    @property
    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self._display.display).rstrip()

    @property
    def words(self) -> str:
        """The visible text, without line breaks."""
        return " ".join(self.screen.split())

    def until(self, text: str) -> None:
        """Wait until this text is visible, with any line breaks."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.words:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} never came; the screen held:\n{self.screen}")

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> None:
        """Wait for its end, which sets `code`."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"nothing more came; the screen held:\n{self.screen}")
        if not select.select([self._fd], [], [], left)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the terminal has been closed
            return False
        self.written += data.decode(errors="replace")
        self._emulator.feed(data)
        return bool(data)


class Wire:
    """A TCP proxy to the server. `cut` closes all connections; with `down` no connection is accepted. With
    `mute` requests arrive, but no answers; `lose_answer` drops one answer and closes its connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.down = self.mute = False
        self.lost = 0
        self._to_lose = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.down = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lose_answer(self) -> None:
        self._to_lose += 1

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.down:
                    near.close()
                    continue
                far = socket.create_connection(self._server)
                self._open += [near, far]
                for source, target, back in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._copy, args=(source, target, back), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, back: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if back and self._to_lose:
                    self._to_lose -= 1
                    self.lost += 1
                    break
                if not (back and self.mute):
                    target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
