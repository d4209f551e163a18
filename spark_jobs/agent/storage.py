"""Where checkpoints are kept: any directory or object store that fsspec opens."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem


class CheckpointStorage:
    """`<url>/<topology>/files/<partition>/<file>` and `<url>/<topology>/manifests/<k>/<partition>.json`.

    A name appears only when its content is complete. Raises what the store raises: `OSError` for
    directories (no space, no permission), its own kinds elsewhere.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, root = fsspec.core.url_to_fs(url)
        self._root = str(root).rstrip("/")
        self._local = isinstance(self._files, LocalFileSystem)

    def stored_files(self, topology: str, directory: str) -> dict[str, int]:
        """Names and sizes of the files of a partition that are stored already."""
        try:
            listing = self._files.ls(self._files_directory(topology, directory), detail=True, refresh=True)
        except FileNotFoundError:
            return {}
        return {str(entry["name"]).rsplit("/", 1)[-1]: int(entry["size"] or 0) for entry in listing}

    def store_file(self, topology: str, directory: str, name: str, source: Path) -> None:
        if Path(name).name != name:
            raise ValueError(f"state file name {name!r} holds a path")
        target = f"{self._files_directory(topology, directory)}/{name}"
        if self._local:
            store_locally(source, Path(target))
        else:
            self._files.put_file(str(source), target)

    def store_manifest(self, topology: str, checkpoint: int, directory: str, content: bytes) -> None:
        target = f"{self._root}/{topology}/manifests/{checkpoint}/{directory}.json"
        if self._local:
            write_locally(content, Path(target))
        else:
            self._files.pipe_file(target, content)

    def _files_directory(self, topology: str, directory: str) -> str:
        return f"{self._root}/{topology}/files/{directory}"


def store_locally(source: Path, target: Path) -> None:
    """Bring an immutable file to `target`, complete or not at all: as a hard link on the same disk (the
    content then outlives the node's directory), else as a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    try:
        try:
            os.link(source, partial)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            shutil.copyfile(source, partial)
        os.replace(partial, target)
    finally:
        # Also after success: renaming one name of a file onto another name of it leaves both.
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_locally(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(target)
    try:
        partial.write_bytes(content)
        os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
