"""What other users of this host get of the product's files: nothing.

Everything is below one directory with mode 0700, and every process of the product creates files with the
umask 077. A directory that belongs to another user, or that others can replace, is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from host.durable import force_names
from host.environment import database_parse

UMASK = 0o077
_OTHERS = 0o077
# What the processes of this host write for themselves. Below the other directories of a home (outputs,
# checkpoints, state of nodes) are files without number, which the mode of their directory protects.
_SEARCHED = ("db", "log", "redis", "run", "zookeeper")


class UnsafeHomeError(OSError):
    """Other users of this host could read or replace the product's files; the message says what to do."""


def umask_set() -> None:
    """Files that this process and its children create from now on are their user's alone."""
    os.umask(UMASK)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, complete or not at all. It survives the loss of power: such
    files hold secrets without which other data cannot be read."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fdatasync(descriptor)
    partial.replace(path)
    force_names(path.parent, root=path.parent.parent)


def home_protect(home: Path, *, files: bool = True) -> None:
    """Make `home`, or take from others what they may do there since an earlier version, and set the umask.
    Without `files`, only the directory itself, which is enough: no other user gets past it.

    Raises `UnsafeHomeError` where that does not protect it, and `OSError` where it cannot be written.
    """
    umask_set()
    home.mkdir(parents=True, exist_ok=True)
    if home.stat().st_uid == os.geteuid():
        for path in (home, *(_inside(home) if files else ())):
            file_protect(path)
    problems = home_problems(home)
    if problems:
        raise UnsafeHomeError(problems[0])


def file_protect(path: Path) -> None:
    """Take every permission from others. A link is left alone: what it leads to may be shared on purpose."""
    try:
        found = path.lstat()
        if found.st_mode & _OTHERS and not stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except FileNotFoundError:
        pass  # a log that was rotated away meanwhile


def home_problems(home: Path) -> list[str]:
    """What other users of this host could do, a sentence each with its remedy; empty if nothing."""
    try:
        found = home.stat()
    except OSError as error:
        return [f"RESURGE_HOME={home} cannot be examined: {error.strerror}"]
    problems = []
    if found.st_uid != os.geteuid():
        problems.append(
            f"RESURGE_HOME={home} belongs to the user {found.st_uid}, and this process runs as "
            f"{os.geteuid()}: run it as that user, or name another directory"
        )
    if found.st_mode & _OTHERS:
        problems.append(_open_to_others(home, found.st_mode))
    problems += [
        f"every user may replace what is in {parent}, so also {home}: run `chmod o-w {parent}`, or move "
        "RESURGE_HOME elsewhere"
        for parent in home.parents
        if _others_may_replace(parent)
    ]
    return problems


def file_problems(paths: list[Path]) -> list[str]:
    """As `home_problems`, for single files outside the home, such as a database."""
    problems = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError:
            continue  # made with the umask when it is first written
        if mode & _OTHERS:
            problems.append(_open_to_others(path, mode))
    return problems


def database_files(url: str) -> list[Path]:
    """Where a database URL keeps its data on this host; nothing for a server. Raises `InvalidEnvironment`."""
    parsed = database_parse(url)
    name = str(parsed["NAME"])
    if "sqlite3" not in str(parsed["ENGINE"]) or name == ":memory:":
        return []
    path = "/" + name.lstrip("/")  # POSIX keeps two slashes
    return [Path(f"{path}{ending}") for ending in ("", "-wal", "-shm")]


def _open_to_others(path: Path, mode: int) -> str:
    shown = stat.S_IMODE(mode)
    return f"other users may use {path} (mode {shown:04o}): run `chmod {shown & ~_OTHERS:04o} {path}`"


def _others_may_replace(directory: Path) -> bool:
    mode = directory.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def _inside(home: Path) -> Iterator[Path]:
    for entry in home.iterdir():
        yield entry
        if entry.name in _SEARCHED and entry.is_dir() and not entry.is_symlink():
            yield from entry.rglob("*")
