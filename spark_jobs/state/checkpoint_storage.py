"""Where checkpoints are kept, and under which names: any directory or object store that fsspec opens.

    <url>/<topology>/manifests/<k>/<partition directory>.json   the manifest of one partition in cp(P_k)
    <url>/<topology>/files/<partition directory>/<file>         a state file, for every checkpoint naming it

State files are immutable, so an upload sends only those that the storage lacks, and a file may go once no
manifest names it. Agents write here, Spark tasks read, and the driver deletes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import uuid
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem


class CheckpointStorage:
    """A name appears only when its content is complete. Raises what the store raises: `OSError` for
    directories (no space, no permission), its own kinds elsewhere."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._filesystem, root = fsspec.core.url_to_fs(url)
        self._root = str(root).rstrip("/")
        self._local = isinstance(self._filesystem, LocalFileSystem)

    # ---- state files -----------------------------------------------------------------------------

    def files(self, topology: str, directory: str) -> dict[str, int]:
        """Names and sizes of the stored files of a partition."""
        return self._list(f"{self._root}/{topology}/files/{directory}")

    def store_file(self, topology: str, directory: str, name: str, source: Path) -> None:
        target = self._file(topology, directory, name)
        if self._local:
            _link_or_copy(source, Path(target))
        else:
            self._filesystem.put_file(str(source), target)

    def fetch_file(self, topology: str, directory: str, name: str, target: Path) -> None:
        self._filesystem.get_file(self._file(topology, directory, name), str(target))

    def delete_file(self, topology: str, directory: str, name: str) -> None:
        self._filesystem.rm_file(self._file(topology, directory, name))

    def _file(self, topology: str, directory: str, name: str) -> str:
        if posixpath.basename(name) != name:
            raise ValueError(f"state file name {name!r} holds a path")
        return f"{self._root}/{topology}/files/{directory}/{name}"

    # ---- checkpoints -----------------------------------------------------------------------------

    def checkpoints(self, topology: str) -> list[int]:
        """Numbers of those that have manifests, ascending; the newest may still be under way."""
        return sorted(
            int(name) for name in self._list(f"{self._root}/{topology}/manifests") if name.isdigit()
        )

    def manifest_path(self, topology: str, checkpoint: int, directory: str) -> str:
        return f"{self._checkpoint(topology, checkpoint)}/{directory}.json"

    def store_manifest(self, topology: str, checkpoint: int, directory: str, content: bytes) -> None:
        target = self.manifest_path(topology, checkpoint, directory)
        if self._local:
            _write_whole(content, Path(target))
        else:
            self._filesystem.pipe_file(target, content)

    def read_manifest(self, topology: str, checkpoint: int, directory: str) -> bytes:
        content: bytes = self._filesystem.cat_file(self.manifest_path(topology, checkpoint, directory))
        return content

    def read_manifests(self, topology: str, checkpoint: int) -> dict[str, bytes]:
        """Those of every partition, by partition directory."""
        names = self._list(self._checkpoint(topology, checkpoint))
        directories = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return {one: self.read_manifest(topology, checkpoint, one) for one in directories}

    def delete_checkpoint(self, topology: str, checkpoint: int) -> None:
        """Delete its manifests; its files stay for the checkpoints that share them."""
        self._filesystem.rm(self._checkpoint(topology, checkpoint), recursive=True)

    def delete_topology(self, topology: str) -> None:
        """Delete every checkpoint of a topology, if there is any."""
        root = f"{self._root}/{topology}"
        if self._filesystem.exists(root):
            self._filesystem.rm(root, recursive=True)

    def _checkpoint(self, topology: str, checkpoint: int) -> str:
        return f"{self._root}/{topology}/manifests/{checkpoint}"

    def _list(self, path: str) -> dict[str, int]:
        """Names and sizes of what is in a directory now; nothing if there is no such directory."""
        try:
            entries = self._filesystem.ls(path, detail=True, refresh=True)
        except FileNotFoundError:
            return {}
        return {posixpath.basename(str(one["name"]).rstrip("/")): int(one["size"] or 0) for one in entries}


def _link_or_copy(source: Path, target: Path) -> None:
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


def _write_whole(content: bytes, target: Path) -> None:
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
