"""Choosing free TCP ports and remembering them in `run/ports.json`."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

LOOPBACK = "127.0.0.1"
NAMES = ("zookeeper", "redis", "spark_master", "spark_master_ui")


class PortTakenError(RuntimeError):
    """The port an operator asked for is in use; the message names it and the remedy."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `host:port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def require_free(port: int) -> None:
    """Raise `PortTakenError` unless the web server's port can be had."""
    if not is_free(port):
        raise PortTakenError(
            f"port {port} is in use by another program: choose another one with RESURGE_PORT, "
            f"for example `make up RESURGE_PORT={port + 1 if port < 65535 else 8000}`"
        )


def choose(path: Path, names: tuple[str, ...] = NAMES) -> dict[str, int]:
    """A free port for every name: the recorded one where it is still free, so that addresses stay
    the same from one start to the next, else one the system gives."""
    recorded = recorded_ports(path)
    chosen: dict[str, int] = {}
    held: list[socket.socket] = []
    try:
        for name in names:
            port = recorded.get(name, 0)
            if port in chosen.values() or not is_free(port):
                port = 0
            # The sockets stay open until all ports are chosen, so that no port is chosen twice.
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(probe)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
            chosen[name] = probe.getsockname()[1]
    finally:
        for probe in held:
            probe.close()
    return chosen


def recorded_ports(path: Path) -> dict[str, int]:
    """The ports of the last start; empty when there was none or the file is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return {}
