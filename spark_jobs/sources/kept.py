"""Small files beside the input, such as arrival rates: read once, checked, and kept with the topology.

As with the input itself, a file that changes or vanishes later cannot change what a replay reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from host.durable import write_whole
from spark_jobs.sources.problems import SourceError

Content = TypeVar("Content")


class KeptFile(msgspec.Struct, frozen=True):
    """The copy: which original it is of, and what was read from it."""

    source: str
    size: int
    mtime_ns: int
    digest: str
    content: msgspec.Raw


_decoder = msgspec.json.Decoder(KeptFile)


def keep(source: str, target: Path, read: Callable[[Path], Any], *, refresh: bool) -> None:
    """Make `target` of what `read` gives of the file `source`. A copy of the same file stays as it is, unless
    `refresh` says that this is a first start. Raises `SourceError`."""
    path = Path(source).expanduser().absolute()
    if target.exists() and not refresh and _opened(target).source == str(path):
        return
    content = read(path)
    status = path.stat()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    raw = msgspec.Raw(msgspec.json.encode(content))
    facts = KeptFile(str(path), status.st_size, status.st_mtime_ns, digest, raw)
    write_whole(target, msgspec.json.encode(facts), root=target.parent)


def kept(path: str, decoder: msgspec.json.Decoder[Content]) -> Content:
    """What the copy holds; raises `SourceError` if it cannot be read."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise _damaged(Path(path), error.strerror or str(error)) from error
    return _content(path, status.st_ino, status.st_mtime_ns, decoder)


@lru_cache(maxsize=16)
def _content(path: str, inode: int, mtime_ns: int, decoder: msgspec.json.Decoder[Content]) -> Content:
    """Shared by all readers of this process; `inode` and `mtime_ns` tell copies apart."""
    try:
        return decoder.decode(_opened(Path(path)).content)
    except msgspec.DecodeError as error:
        raise _damaged(Path(path), str(error)) from error


def _opened(path: Path) -> KeptFile:
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, what: str) -> SourceError:
    return SourceError(
        where=str(path), what=f"the copy of a file of the input cannot be read: {what}",
        hint="Remove it and deploy the topology again.",
    )  # fmt: skip
