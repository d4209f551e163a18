"""What a running installation offers to other processes of the host: ports, sockets, environments."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.roles import command_line, role_of
from harness.stack import Stack
from supervision.supervisor import Supervisor
from tests.integration.protocols import Port


def processes(stack: Stack) -> list[int]:
    """Redis overwrites its environment, by which the others are found."""
    return sorted({*stack.processes(), *(state.pid for state in Supervisor(stack.home).states())})


def listening(pids: list[int]) -> Iterator[Port]:
    """TCP ports on which these processes listen."""
    owners = _owners(pids)
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in owners:
                host, number = fields[1].split(":")
                pid = owners[fields[9]]
                yield Port(role_of(pid), command_line(pid)[-80:], _address(host), int(number, 16))


def unix_sockets(pids: list[int]) -> Iterator[str]:
    owners = _owners(pids)
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) == 8 and fields[3] == "00010000" and fields[6] in owners:
            yield fields[7]


def relative(path: str, parent: Path) -> str:
    """From where the attacker is. supervisord binds `<name>.<its pid>` and renames that."""
    named, _, pid = path.rpartition(".")
    found = Path(named if pid.isdigit() and not os.path.lexists(path) else path)
    return str(found.relative_to(parent) if found.is_relative_to(parent) else found)


def _owners(pids: Iterable[int]) -> dict[str, int]:
    """Socket, by its inode -> the process that has it."""
    found: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = os.readlink(entry)
                    if target.startswith("socket:["):
                        found[target[8:-1]] = pid
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
