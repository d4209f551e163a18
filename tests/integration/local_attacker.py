"""What a user of the host without any rights gets from a running installation.

A child of this process gives up all rights, asks every listening port in every protocol of the product,
connects to every listening Unix socket, and opens every file of the home. It starts at the directory above
the home, so that only what the product itself protects counts.

Each attack proves that it reached its target: a file or socket by the error that refuses it, a port by an
answer in the protocol that it speaks. What could not be carried out is reported as such, unless the target is
gone.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.stack import Stack
from tests.integration.port_attacks import ATTACKS
from tests.integration.protocols import PATIENCE, QUESTIONS, Port, UnreachedError, asked, protocol_of
from tests.integration.surface import listening, processes, relative, unix_sockets

WITHOUT_RIGHTS = 65_534
"""A user and a group that own nothing."""
LIFELINE = "node"
"""The role whose ports never answer, in no protocol: `spark_jobs.agent.lifeline`."""
OPEN, CLOSED = "open-to-all", "open-to-root"
"""Files beside the home that show whether the attacker can open what it may, and not what it may not."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What there is to attack; `above` is an open directory, `files` and `sockets` are relative to it. `node`
    is one that is registered."""

    ports: list[Port]
    sockets: list[str]
    above: int
    files: list[str]
    web: int
    node: str


@dataclass(slots=True)
class Outcome:
    """`found` should be empty. `unreached`: target -> why an attack on it could not be carried out. `spoken`:
    role -> the protocols in which its ports answered; `reached` counts attacks by kind."""

    found: list[str] = field(default_factory=list)
    unreached: dict[str, str] = field(default_factory=dict)
    spoken: dict[str, set[str]] = field(default_factory=dict)
    reached: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        self.found += other.found
        self.unreached |= other.unreached
        self.reached += other.reached
        for role, protocols in other.spoken.items():
            self.spoken.setdefault(role, set()).update(protocols)


def attack(stack: Stack) -> Outcome:
    """Needs root, since the child changes its user."""
    pids = processes(stack)
    parent = stack.home.parent
    with open_to_all(parent) as above:
        surface = Surface(
            ports=list(listening(pids)),
            sockets=[relative(path, parent) for path in unix_sockets(pids)],
            above=above,
            files=files_of(stack.home),
            web=stack.installation.settings.port,
            node=min(stack.nodes("alive")),
        )
        outcome = unprivileged(surface)
        gone = _gone(surface, parent, processes(stack))
        outcome.unreached = {name: why for name, why in outcome.unreached.items() if name not in gone}
        return outcome


@contextlib.contextmanager
def open_to_all(parent: Path) -> Iterator[int]:
    """The directory above the home, as users find it who keep their home in one that all can enter; temporary
    directories are closed, and would refuse everything. With the files that show what the attacker may."""
    mode = stat.S_IMODE(parent.stat().st_mode)
    above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        parent.chmod(0o755)
        for name, permitted in ((OPEN, 0o644), (CLOSED, 0o600)):
            (parent / name).write_text(name)
            (parent / name).chmod(permitted)
        yield above
    finally:
        for name in (OPEN, CLOSED):
            (parent / name).unlink(missing_ok=True)
        parent.chmod(mode)
        os.close(above)


def files_of(home: Path) -> list[str]:
    return ["home", *(str(path.relative_to(home.parent)) for path in home.rglob("*"))]


def _gone(surface: Surface, parent: Path, pids: list[int]) -> set[str]:
    """What has ended of itself meanwhile: there is nothing to reach."""
    ports = {str(port) for port in listening(pids)}
    sockets = {relative(path, parent) for path in unix_sockets(pids)}
    return {
        *(str(port) for port in surface.ports if str(port) not in ports),
        *(path for path in surface.sockets if path not in sockets),
        *(path for path in surface.files if not os.path.lexists(parent / path)),
    }


def unprivileged(surface: Surface) -> Outcome:
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(duplex=False)
    child = forking.Process(target=_child, args=(surface, there))
    child.start()
    there.close()
    try:
        outcome: Outcome = here.recv()
    finally:
        child.join(30)
    return outcome


def _child(surface: Surface, told: Any) -> None:
    os.fchdir(surface.above)
    os.setgroups([])
    os.setgid(WITHOUT_RIGHTS)
    os.setuid(WITHOUT_RIGHTS)
    assert os.geteuid() == WITHOUT_RIGHTS
    outcome = _files(surface)
    outcome.add(_sockets(surface.sockets))
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(surface.ports) + 1) as pool:
        # Asked before all others, and looked at after all others have answered.
        silent = [(port, _lifeline_asked(port, stack)) for port in surface.ports if port.role == LIFELINE]
        others = [port for port in surface.ports if port.role != LIFELINE]
        for one in pool.map(lambda port: _attacks(port, surface), others):
            outcome.add(one)
        for port, connections in silent:
            outcome.add(_lifeline_heard(port, connections))
    told.send(outcome)


# ---- files and sockets ---------------------------------------------------------------------------


def _files(surface: Surface) -> Outcome:
    os.close(os.open(OPEN, os.O_RDONLY))
    with contextlib.suppress(PermissionError):
        os.close(os.open(CLOSED, os.O_RDONLY))
        raise AssertionError("the attacker has kept rights")
    outcome = Outcome()
    for path in surface.files:
        for what, flags in (("read", os.O_RDONLY), ("written", os.O_WRONLY | os.O_APPEND)):
            _open(outcome, path, what, flags)
    _open(outcome, "home/planted", "planted", os.O_WRONLY | os.O_CREAT)
    return outcome


def _open(outcome: Outcome, path: str, what: str, flags: int) -> None:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except PermissionError:
        outcome.reached["file"] += 1
    except (FileNotFoundError, NotADirectoryError) as error:
        outcome.unreached[path] = repr(error)
    except IsADirectoryError:
        pass  # no directory can be written so; `planted` tries it
    except OSError as error:  # such as a socket: opening was permitted
        outcome.found.append(f"{path} can be {what}: {error!r}")
    else:
        outcome.found.append(f"{path} can be {what}")


def _sockets(paths: list[str]) -> Outcome:
    outcome = Outcome()
    for path in paths:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(PATIENCE)
            try:
                connection.connect(path)
            except PermissionError:
                outcome.reached["socket"] += 1
            except OSError as error:
                outcome.unreached[path] = repr(error)
            else:
                outcome.found.append(f"{path} can be connected to")
    return outcome


# ---- ports ---------------------------------------------------------------------------------------


def _attacks(port: Port, surface: Surface) -> Outcome:
    outcome = Outcome()
    try:
        protocol = protocol_of(port)
        outcome.spoken[port.role] = {protocol}
        # tests/unit/controlplane/accounts/test_roles.py asks for the pages of the web server.
        attacks = ATTACKS[protocol](port, surface.node) if port.number != surface.web else iter([""])
        for said in attacks:
            outcome.reached[protocol] += 1
            if said:
                outcome.found.append(f"{port} ({port.process}): {said}")
    except UnreachedError as error:
        outcome.unreached[str(port)] = str(error)
    return outcome


def _lifeline_asked(port: Port, stack: contextlib.ExitStack) -> list[socket.socket] | str:
    """Connections on which every protocol was tried, or why they could not be had."""
    try:
        return [
            stack.enter_context(contextlib.closing(asked(port, question))) for question in QUESTIONS.values()
        ]
    except UnreachedError as error:
        return str(error)


def _lifeline_heard(port: Port, connections: list[socket.socket] | str) -> Outcome:
    """It may close connections, and says nothing."""
    outcome = Outcome()
    if isinstance(connections, str):
        outcome.unreached[str(port)] = connections
        return outcome
    outcome.spoken[port.role] = {"nothing"}
    for connection in connections:
        connection.setblocking(False)
        outcome.reached["lifeline"] += 1
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            if said := connection.recv(4096):
                outcome.found.append(f"{port}: {said[:60]!r}")
    return outcome


def told(found: list[str] | dict[str, str]) -> str:
    return json.dumps(found, indent=1)
