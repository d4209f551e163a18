"""`make logs`: the last lines of the logs, and with FOLLOW=1 what is added to them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TAIL_LINES = 15
TAIL_BYTES = 64 * 1024


def logs_show(home: Path, *, names: Sequence[str], follow: bool) -> int:
    """Show the logs of the named processes (`web`, `node-1`, `driver.hashtags`), or of all."""
    directory = home / "log"
    names = names or os.environ.get("NAME", "").split()
    files = _files(directory, names)
    if not files:
        sys.stderr.write(f"no log of {', '.join(names) or 'any process'} in {directory}\n")
        return 1
    offsets: dict[Path, int] = {}
    for path in files:
        sys.stdout.write(f"==> {path.name} <==\n")
        with open(path, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
        offsets[path] = size
        sys.stdout.write("".join(f"{line}\n" for line in lines[-TAIL_LINES:]))
    sys.stdout.flush()
    if not (follow or os.environ.get("FOLLOW", "") not in ("", "0")):
        return 0
    try:
        while True:
            time.sleep(0.5)
            for path in _files(directory, names):
                offsets[path] = _show_added(path, offsets.get(path, 0))
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 0


def _files(directory: Path, names: Sequence[str]) -> list[Path]:
    files = sorted(directory.glob("*.log"))
    return [path for path in files if not names or path.name.removesuffix(".log") in names]


def _show_added(path: Path, offset: int) -> int:
    """Show what follows `offset`; returns the new one (0 again after the file was rotated)."""
    try:
        size = path.stat().st_size
        if size == offset:
            return offset
        with open(path, "rb") as stream:
            stream.seek(offset if size > offset else 0)
            added = stream.read().decode(errors="replace")
    except OSError:
        return 0
    prefix = path.name.removesuffix(".log")
    sys.stdout.write("".join(f"{prefix}: {line}\n" for line in added.splitlines()))
    return size
