"""The `supervisor` daemon of an installation: its configuration and its control interface."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import xmlrpc.client
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport, UnixStreamHTTPConnection

from host.environment import ROOT, InvalidEnvironment
from host.private import UMASK, write_private
from host.process_secrets import withheld
from host.processes import start_time
from supervision.installation import Installation
from supervision.program import Program
from supervision.readiness import NotReadyError, wait_until

# sun_path holds 108 bytes with the final zero.
LONGEST_SOCKET_PATH = 100
LOG_BYTES = "20MB"
_COMMENT = re.compile(r"\s[;#]")

ANSWERS_WITHIN = 20.0
"""Seconds that the daemon may take to answer: on a busy host it is late."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process as `supervisor` sees it; `state` is RUNNING, STOPPED, BACKOFF, FATAL..."""

    name: str
    state: str
    pid: int
    text: str


class Supervisor:
    """Talks to the daemon of one installation, starting it when asked to."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._socket = socket_path(home)
        self._pid_file = home / "run" / "supervisord.pid"

    def is_running(self) -> bool:
        """Whether the daemon runs. Raises `NotReadyError` where it is there and gives no answer."""
        try:
            # Another user may have put a socket of this name into the temporary directory.
            if self._socket.stat().st_uid != os.geteuid():
                return False
            return str(self._call("getState")["statename"]) == "RUNNING"
        except (OSError, xmlrpc.client.Error):
            return False

    def launch(self, installation: Installation, programs: Iterable[Program]) -> None:
        """Write the configuration and start the daemon, without any process yet. Raises `NotReadyError` and
        `InvalidEnvironment`."""
        configuration = installation.run / "supervisord.conf"
        write_private(configuration, configuration_text(installation, programs, self._socket).encode())
        self._socket.unlink(missing_ok=True)
        with open(installation.logs / "supervisord.out", "ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "supervision.daemon", "--nodaemon", "-c", str(configuration)],
                cwd=ROOT,
                env=installation.environment_with_all_secrets,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(
            self.is_running,
            what="supervisord",
            timeout=30,
            alive=lambda: (
                None if child.poll() is None else f"exited, see {installation.logs}/supervisord.out"
            ),
        )

    def start(self, name: str) -> None:
        """Start a process without waiting. Raises `xmlrpc.client.Fault` when there is none of that name."""
        self._call("startProcess", name, False)

    def stop(self, names: Iterable[str]) -> None:
        """Stop processes side by side and wait until they have ended (or were killed)."""
        waiting = list(names)
        for name in waiting:
            try:
                self._call("stopProcess", name, False)
            except xmlrpc.client.Fault:
                continue  # not running
        for name in waiting:
            wait_until(
                lambda name=name: not self._is_up(name),  # type: ignore[misc]
                what=f"end of {name}",
                timeout=90,
            )

    def states(self) -> list[ProcessState]:
        """Every process; empty when the daemon does not run. Raises `NotReadyError`."""
        if not self.is_running():
            return []
        return [
            ProcessState(
                name=str(info["name"]),
                state=str(info["statename"]),
                pid=int(info["pid"]),
                text=str(info["description"] or info["spawnerr"]),
            )
            for info in self._call("getAllProcessInfo")
        ]

    def pid(self, name: str) -> int:
        return int(self._call("getProcessInfo", name)["pid"])

    def why_dead(self, name: str) -> str | None:
        """A sentence when the process cannot become ready any more."""
        info = self._call("getProcessInfo", name)
        if info["statename"] in ("BACKOFF", "FATAL", "EXITED"):
            return f"exits ({info['spawnerr'] or info['description']}), see {self._home / 'log' / name}.log"
        return None

    def shut_down(self) -> None:
        """End the daemon and the processes it still runs."""
        pid = self.daemon_pid()
        try:
            self._call("shutdown")
        except (OSError, xmlrpc.client.Error):
            return
        if pid is not None:
            wait_until(lambda: start_time(pid) is None, what="end of supervisord", timeout=90)

    def daemon_pid(self) -> int | None:
        try:
            return int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None

    def _is_up(self, name: str) -> bool:
        state = self._call("getProcessInfo", name)["statename"]
        return state in ("STARTING", "RUNNING", "BACKOFF", "STOPPING")

    def _call(self, method: str, *arguments: Any) -> Any:
        transport = _Transport(self._socket)
        try:
            proxy = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
            return getattr(proxy.supervisor, method)(*arguments)
        except TimeoutError:
            raise NotReadyError(
                f"supervisord (process {self.daemon_pid()}) has not answered for {ANSWERS_WITHIN:.0f} s:"
                " it is stopped, or this host is very busy"
            ) from None
        finally:
            transport.close()


class _Transport(SupervisorTransport):
    """A connection that gives up: the one of `supervisor` waits for a stopped daemon for good."""

    def __init__(self, path: Path) -> None:
        super().__init__(None, None, serverurl=f"unix://{path}")
        self._get_connection = lambda: _Connection(str(path))


class _Connection(UnixStreamHTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWERS_WITHIN)
        self.socketfile = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.socketfile)


def socket_path(home: Path) -> Path:
    """Control socket: in `run/`, or in the temporary directory where that path is too long for a socket."""
    path = home / "run" / "supervisor.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"resurge-{os.getuid()}-{name}.sock"


def configuration_text(installation: Installation, programs: Iterable[Program], socket: Path) -> str:
    """`supervisord.conf`. Processes are started one by one over the control socket, in order and each after
    what it needs is ready, hence `autostart=false`. Raises `InvalidEnvironment`."""
    sections = [
        "[unix_http_server]",
        f"file={_escape(str(socket))}",
        "chmod=0700",
        "",
        "[supervisord]",
        f"logfile={_escape(str(installation.logs / 'supervisord.log'))}",
        f"logfile_maxbytes={LOG_BYTES}",
        "logfile_backups=2",
        f"pidfile={_escape(str(installation.run / 'supervisord.pid'))}",
        "silent=true",
        f"umask={UMASK:03o}",
        f"childlogdir={_escape(str(installation.logs))}",
        *(["user=root"] if os.geteuid() == 0 else []),
        "",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
        "",
    ]
    for program in programs:
        # Each process has the daemon's environment with all secrets: those that it does not need are emptied.
        hidden = sorted(withheld(program.name) & installation.environment_with_all_secrets.keys())
        own = {**dict.fromkeys(hidden, ""), **program.environment}
        environment = ",".join(f'{name}="{_escape(value)}"' for name, value in own.items())
        sections += [
            f"[program:{program.name}]",
            f"command={_escape(shlex.join(program.command))}",
            f"directory={_escape(str(ROOT))}",
            *([f"environment={environment}"] if environment else []),
            "autostart=false",
            "autorestart=true",
            # Enough retries to survive an outage of a server; the pause grows by a second each time.
            f"startsecs={program.settle:.0f}",
            "startretries=1000",
            f"priority={program.priority}",
            f"stopsignal={program.stop_signal}",
            f"stopwaitsecs={program.stop_wait:.0f}",
            "stopasgroup=true",
            "killasgroup=true",
            "redirect_stderr=true",
            f"stdout_logfile={_escape(str(installation.logs / program.name))}.log",
            f"stdout_logfile_maxbytes={LOG_BYTES}",
            "stdout_logfile_backups=2",
            "",
        ]
    return "\n".join(sections)


def _escape(text: str) -> str:
    """Raises `InvalidEnvironment` for a path of which the daemon would read a part."""
    if _COMMENT.search(text):
        raise InvalidEnvironment(
            f"{text}: supervisord takes what follows a space and ; or # for a comment. Name a RESURGE_HOME, "
            "and have this checkout in a directory, without these"
        )
    return text.replace("%", "%%")
