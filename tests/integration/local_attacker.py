"""What a user of the host without any rights gets from a running installation: a list of findings, empty if
nothing.

A child of this process gives up all rights, asks every listening port in every protocol of the product,
connects to every listening Unix socket, and opens every file of the home. It starts at the directory above
the home, so that only what the product itself protects counts.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from coordination.paths import ROOT, Paths
from harness.stack import Stack
from supervision.supervisor import Supervisor

WITHOUT_RIGHTS = 65_534
"""A user and a group that own nothing."""
LIMIT = 3.0
"""Seconds to wait for an answer."""
PAGES = (
    "/",
    "/json/",
    "/environment/",
    "/metrics/json/",
    "/metrics/prometheus/",
    "/logPage/",
    "/log/",
    "/static/",
)
SUBMISSION = "/v1/submissions/status/driver-0"
REDIS_COMMANDS = ("PING", "INFO", "KEYS *", "CONFIG GET *", "EVAL 'return 1' 0", "FLUSHALL")
# Not `srvr`, which ZooKeeper answers whatever is configured: its version and how many znodes it has.
FOUR_LETTERS = ("stat", "mntr", "dump", "conf", "envi", "cons", "wchs", "wchp", "isro")


@dataclass(frozen=True, slots=True)
class Port:
    process: str
    host: str
    number: int


@dataclass(frozen=True, slots=True)
class Surface:
    """What there is to attack; `above` is an open directory, `files` are relative to it."""

    ports: list[Port]
    sockets: list[str]
    above: int
    files: list[str]
    web: int


def findings(stack: Stack) -> list[str]:
    """Needs root, since the child changes its user."""
    pids = processes(stack)
    above = os.open(stack.home.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        surface = Surface(
            ports=list(_listening(pids)),
            sockets=list(_unix_sockets(pids)),
            above=above,
            files=[
                "home",
                *(str(Path("home", path.relative_to(stack.home))) for path in stack.home.rglob("*")),
            ],
            web=stack.installation.settings.port,
        )
        assert len(surface.ports) >= 10, surface.ports
        assert surface.sockets
        assert len(surface.files) > 50
        return _unprivileged(surface)
    finally:
        os.close(above)


def _unprivileged(surface: Surface) -> list[str]:
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(duplex=False)
    child = forking.Process(target=_child, args=(surface, there))
    child.start()
    there.close()
    try:
        found: list[str] = here.recv()
    finally:
        child.join(30)
    return found


def _child(surface: Surface, answer: Any) -> None:
    os.setgroups([])
    os.setgid(WITHOUT_RIGHTS)
    os.setuid(WITHOUT_RIGHTS)
    assert os.geteuid() == WITHOUT_RIGHTS
    found = [*_files(surface), *_connections(surface.sockets)]
    # Most of an attack is waiting for an answer that does not come.
    with ThreadPoolExecutor(len(surface.ports)) as pool:
        for said in pool.map(lambda port: _attacks(port, surface.web), surface.ports):
            found += said
    answer.send(found)


def _attacks(port: Port, web: int) -> list[str]:
    # tests/unit/controlplane/accounts/test_roles.py asks for the pages of the web server.
    attacks = [attack for attack in ATTACKS if not (attack is _pages and port.number == web)]
    return [
        f"{port.process} at {port.host}:{port.number}: {said}" for attack in attacks for said in attack(port)
    ]


# ---- files and sockets ---------------------------------------------------------------------------


def _files(surface: Surface) -> Iterator[str]:
    for path in surface.files:
        for what, flags in (("read", os.O_RDONLY), ("written", os.O_WRONLY | os.O_APPEND)):
            with contextlib.suppress(OSError):
                os.close(os.open(path, flags | os.O_NONBLOCK, dir_fd=surface.above))
                yield f"{path} can be {what}"
    with contextlib.suppress(OSError):
        os.close(os.open("home/planted", os.O_WRONLY | os.O_CREAT, dir_fd=surface.above))
        yield "a file can be planted in the home"


def _connections(paths: list[str]) -> Iterator[str]:
    for path in paths:
        with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
            connection.settimeout(LIMIT)
            connection.connect(path)
            yield f"{path} can be connected to"


# ---- ports ---------------------------------------------------------------------------------------


def _ask(port: Port, question: bytes) -> bytes:
    """What comes back within the limit, or until the connection is closed."""
    said = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((port.host, port.number), LIMIT) as connection,
    ):
        connection.settimeout(0.5)
        connection.sendall(question)
        while len(said) < 65_536 and (more := connection.recv(4096)):
            said += more
    return said


def _pages(port: Port) -> Iterator[str]:
    for page in (*PAGES, SUBMISSION):
        connection = http.client.HTTPConnection(port.host, port.number, timeout=0.5)
        try:
            connection.request("GET", page)
            answer = connection.getresponse()
            if answer.status < 400 or (page == SUBMISSION and b"action" in answer.read()):
                yield f"GET {page}: {answer.status}"
        except (OSError, http.client.HTTPException):
            return  # speaks no HTTP
        finally:
            connection.close()


def _redis(port: Port) -> Iterator[str]:
    for command in REDIS_COMMANDS:
        said = _ask(port, f"{command}\r\n".encode())
        if said[:1] in (b"+", b"$", b"*", b":"):
            yield f"Redis, {command}: {said[:60]!r}"
        elif not said.startswith(b"-"):
            return


def _zookeeper(port: Port) -> Iterator[str]:
    if _ask(port, b"ruok") != b"imok":
        return
    for word in FOUR_LETTERS:
        said = _ask(port, word.encode())
        if said and b"not in the whitelist" not in said:
            yield f"ZooKeeper, {word}: {said[:60]!r}"
    client = KazooClient(f"{port.host}:{port.number}", timeout=4.0, command_retry={"max_tries": 0})
    client.start(timeout=20)
    try:
        yield from _znodes(client)
    finally:
        client.stop()
        client.close()


def _znodes(client: KazooClient) -> Iterator[str]:
    evil = b'{"name": "evil"}'
    plan = Paths.plan("hashtags")
    attempts: dict[str, Callable[[], object]] = {
        "list /": lambda: client.get_children("/"),
        f"list {ROOT}": lambda: client.get_children(ROOT),
        f"list {Paths.NODES}": lambda: client.get_children(Paths.NODES),
        "read a plan": lambda: client.get(plan),
        "read the permissions of a plan": lambda: client.get_acls(plan),
        "read a registration": lambda: client.get(Paths.node("node-1")),
        "read a specification": lambda: client.get(Paths.spec("hashtags")),
        "write a plan": lambda: client.set(plan, evil),
        "write a control": lambda: client.set(Paths.control("hashtags"), evil),
        "delete a plan": lambda: client.delete(plan),
        "add a topology": lambda: client.create(Paths.topology("evil"), evil),
        "add a node": lambda: client.create(Paths.node("evil"), evil, ephemeral=True),
        "add a znode beside the tree": lambda: client.create("/evil", evil),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except NoAuthError:
            continue
        except NoNodeError as error:
            if "control" in what:
                continue  # is made when it is first used
            yield f"ZooKeeper: may {what}, {error!r}"
        except KazooException as error:
            yield f"ZooKeeper, {what}: {error!r}"
        else:
            yield f"ZooKeeper: may {what}"


def _spark(port: Port) -> Iterator[str]:
    """A remote call without authentication, as any Spark program would send it."""
    body = b"\0" * 32
    message = struct.pack(">bqi", 3, 1, len(body)) + body
    said = _ask(port, struct.pack(">q", 8 + len(message)) + message)
    if len(said) > 8 and said[8] in (4, 5) and b"SaslMessage" not in said:
        yield f"Spark takes calls: {said[9:120]!r}"


def _py4j(port: Port) -> Iterator[str]:
    said = _ask(port, b"r\nu\njava.lang.System\nrj\ne\n")
    if said.startswith(b"!y"):
        yield f"the driver's JVM takes commands: {said[:60]!r}"


ATTACKS: tuple[Callable[[Port], Iterator[str]], ...] = (_pages, _redis, _zookeeper, _spark, _py4j)


# ---- what there is -------------------------------------------------------------------------------


def processes(stack: Stack) -> list[int]:
    """Redis overwrites its environment, by which the others are found."""
    return sorted({*stack.processes(), *(state.pid for state in Supervisor(stack.home).states())})


def _listening(pids: list[int]) -> Iterator[Port]:
    """TCP ports on which these processes listen."""
    owners = _owners(pids)
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in owners:
                host, number = fields[1].split(":")
                yield Port(owners[fields[9]], _address(host), int(number, 16))


def _unix_sockets(pids: list[int]) -> Iterator[str]:
    owners = _owners(pids)
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) == 8 and fields[3] == "00010000" and fields[6] in owners:
            yield fields[7]


def _owners(pids: list[int]) -> dict[str, str]:
    """Socket, by its inode -> command of the process that has it."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[-80:]
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(entry)
                    if target.startswith("socket:["):
                        found[target[8:-1]] = command
    return found


def _address(text: str) -> str:
    words = struct.unpack("<" + "I" * (len(text) // 8), bytes.fromhex(text))
    packed = struct.pack(">" + "I" * len(words), *words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def secrets_of(pid: int, names: frozenset[str]) -> frozenset[str]:
    """Which of these variables are in the environment of a process with a value."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries)
    return frozenset(name for name, _, value in pairs if value and name in names)


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def told(found: list[str]) -> str:
    return json.dumps(found, indent=1)
