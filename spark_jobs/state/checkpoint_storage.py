"""Where checkpoints are kept, and under which names: any directory or object store that fsspec opens.

    <url>/<topology>/<deployed>/manifests/<k>/<partition directory>/<generation>.<attempt>.json
                                    the manifest of one partition in cp(P_k), sealed, with whose it is
    <url>/<topology>/<deployed>/files/<partition directory>/<file>.<checksum>
                                    a state file, for every checkpoint that names it

`deployed` is the generation of the plan that deployed the topology. An object is written once: nothing takes
its name afterwards, neither a node of an earlier deployment nor a later attempt, which has a name of its own.
An upload sends only the files that the storage lacks, and a file may go once no manifest names it. What turns
out to be damaged is set aside, so that it is stored again. Agents write here, Spark tasks read, and the
driver deletes. Versions before this one wrote `manifests/<k>/<partition directory>.json` and
`files/<partition directory>/<file>` below the topology, without checksums; that is read where there is
nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import fsspec
import msgspec
from fsspec.implementations.local import LocalFileSystem

from domain.topology import partition_directory
from host.durable import DurableBatch, temporary_name
from spark_jobs.state.sealed import DIGITS, UNREADABLE, DamagedError, seal, unseal
from spark_jobs.state.store import LONGEST_NAME, Manifest, decode_manifest, difference, plain_name
from spark_jobs.state.tables import ChunkEntry

LONGEST_OBJECT = LONGEST_NAME + 1 + DIGITS
"""Bytes of an object's name."""
DAMAGED = ".damaged"
"""What follows the name of an object that was set aside."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A topology in one of its deployments: the generation of the plan that deployed it, 0 from versions of
    the control plane that did not say so."""

    topology: str
    deployed: int


class StoredManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest, and whose it is."""

    topology: str
    deployed: int
    partition: str
    checkpoint: int
    generation: int
    attempt: int
    manifest: msgspec.Raw


_stored = msgspec.json.Decoder(StoredManifest)


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest as it was found in storage: where, and where its files are."""

    path: str
    files: str
    manifest: Manifest

    def file(self, entry: ChunkEntry) -> str:
        return f"{self.files}/{_object_name(entry.name, entry.checksum)}"


class CheckpointStorage:
    """A name appears only when its content is complete; in a directory, only when it is also on disk, unless
    `force` is False. Raises what the store raises: `OSError` for directories (no space, no permission), its
    own kinds elsewhere; `DamagedError` for what is not what was stored."""

    def __init__(self, url: str, *, force: bool = True) -> None:
        self.url = url
        self._filesystem, root = fsspec.core.url_to_fs(url)
        self._root = str(root).rstrip("/")
        self._local = isinstance(self._filesystem, LocalFileSystem)
        self._force = force

    # ---- writing ---------------------------------------------------------------------------------

    def store(self, stored: StoredManifest, files: Sequence[tuple[ChunkEntry, Path]]) -> int:
        """Store a partition's part of a checkpoint: the files that the storage lacks, and the manifest. It is
        all on disk when this returns the bytes that were sent. Raises `DamagedError` for a file that is not
        what was written on its node."""
        deployment = Deployment(stored.topology, stored.deployed)
        directory = f"{self._base(deployment)}/files/{_directory(stored.partition)}"
        there = self._list(directory)
        new: dict[str, Path] = {}
        sent = 0
        for entry, source in files:
            name = _object_name(entry.name, entry.checksum)
            if there.get(name) == entry.bytes:
                continue
            if problem := difference(entry, source):
                raise DamagedError(f"{source} is damaged: {problem}")
            new[f"{directory}/{name}"] = source
            sent += entry.bytes
        content = seal(msgspec.json.encode(stored))
        path = f"{self._manifests(deployment, stored.checkpoint, stored.partition)}/{_version(stored)}"
        known = self._filesystem.exists(path)
        if self._local:
            self._put_local(new, {} if known else {path: content})
        else:
            for target, source in new.items():
                self._filesystem.put_file(str(source), target)
            if not known:
                self._filesystem.pipe_file(path, content)
        return sent + (0 if known else len(content))

    def _put_local(self, files: dict[str, Path], manifests: dict[str, bytes]) -> None:
        """All of it in one batch: the acknowledgement waits for the end of it."""
        batch = DurableBatch(Path(self._root), force=self._force)
        temporary: list[Path] = []
        try:
            for name, source in files.items():
                target = Path(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary.append(temporary_name(target))
                _link_or_copy(source, temporary[-1])
                batch.add(temporary[-1], target)
            for name, content in manifests.items():
                target = Path(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary.append(temporary_name(target))
                temporary[-1].write_bytes(content)
                batch.add(temporary[-1], target, once=True)
            for error in batch.settle().values():
                if not isinstance(error, FileExistsError):  # stored at the same time, by this same node
                    raise error
        finally:
            for path in temporary:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    # ---- reading ---------------------------------------------------------------------------------

    def find(self, deployment: Deployment, checkpoint: int, partition: str) -> Found:
        """The manifest of a partition in a checkpoint that is complete: of several attempts the last one.
        Raises `DamagedError` if it is missing, was changed or is another's."""
        directory = self._manifests(deployment, checkpoint, partition)
        names = self._list(directory)
        versions = [version for name in names if (version := _numbers(name)) is not None]
        if not versions:
            return self._find_unsealed(deployment, checkpoint, partition, directory)
        path = f"{directory}/{'.'.join(map(str, max(versions)))}.json"
        body = unseal(self._filesystem.cat_file(path), path)
        try:
            stored = _stored.decode(body)
        except UNREADABLE as error:
            raise DamagedError(f"{path} is damaged: {error}", path) from error
        said = (stored.topology, stored.deployed, stored.partition, stored.checkpoint)
        asked = (deployment.topology, deployment.deployed, partition, checkpoint)
        if said != asked:
            raise DamagedError(f"{path} is {_words(*said)}, not {_words(*asked)}", path)
        if (stored.generation, stored.attempt) != max(versions):
            what = f"generation {stored.generation}, attempt {stored.attempt}"
            raise DamagedError(f"{path} is that of {what}", path)
        files = f"{self._base(deployment)}/files/{_directory(partition)}"
        return Found(path, files, decode_manifest(bytes(stored.manifest), path, epoch=checkpoint))

    def _find_unsealed(self, deployment: Deployment, checkpoint: int, partition: str, missing: str) -> Found:
        """As versions before this one stored it, without saying whose it is."""
        base = self._earlier(deployment.topology)
        path = f"{base}/manifests/{checkpoint}/{_directory(partition)}.json"
        if not self._filesystem.exists(path):
            if not self._list(base):
                raise OSError(
                    errno.ENOENT, "the storage holds nothing of this topology; is it there at all", base
                )
            raise DamagedError(f"{missing} is missing")
        manifest = decode_manifest(self._filesystem.cat_file(path), path, epoch=checkpoint)
        return Found(path, f"{base}/files/{_directory(partition)}", manifest)

    def fetch(self, found: Found, entry: ChunkEntry, target: Path) -> None:
        """Raises `DamagedError` if the file is missing or not the one that was stored."""
        path = found.file(entry)
        try:
            self._filesystem.get_file(path, str(target))
        except FileNotFoundError:
            if not self._list(posixpath.dirname(found.path)):
                raise  # the storage went away
            raise DamagedError(f"{path} is missing", found.path) from None
        if problem := difference(entry, target):
            raise DamagedError(f"{path} is damaged: {problem}", path, found.path)

    def set_aside(self, paths: Iterable[str]) -> None:
        """Rename what is damaged, so that an upload stores it again; it stays to be looked at."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.mv(path, path + DAMAGED)

    # ---- what is there ---------------------------------------------------------------------------

    def checkpoints(self, deployment: Deployment) -> list[int]:
        """Numbers of those that have manifests, ascending; the newest may still be under way."""
        return sorted(int(name) for name in self._list(f"{self._base(deployment)}/manifests") if _is(name))

    def partitions(self, deployment: Deployment, checkpoint: int) -> list[str]:
        """The directories of those partitions that have a manifest in a checkpoint."""
        return sorted(self._list(f"{self._base(deployment)}/manifests/{checkpoint}"))

    def named(self, deployment: Deployment, checkpoint: int, directory: str) -> set[str]:
        """The files that any attempt at a checkpoint names, as they are called in storage."""
        path = f"{self._base(deployment)}/manifests/{checkpoint}/{directory}"
        found: set[str] = set()
        for name in self._list(path):
            if _numbers(name) is not None:
                one = f"{path}/{name}"
                stored = _stored.decode(unseal(self._filesystem.cat_file(one), one))
                files = decode_manifest(bytes(stored.manifest), one, epoch=checkpoint).files()
                found.update(_object_name(entry.name, entry.checksum) for entry in files)
        return found

    def files(self, deployment: Deployment, directory: str) -> dict[str, int]:
        """Names and sizes of the stored files of a partition."""
        return self._list(f"{self._base(deployment)}/files/{directory}")

    # ---- deleting --------------------------------------------------------------------------------

    def delete_file(self, deployment: Deployment, directory: str, name: str) -> None:
        self._filesystem.rm_file(f"{self._base(deployment)}/files/{directory}/{name}")

    def delete_checkpoint(self, deployment: Deployment, checkpoint: int) -> None:
        """Delete its manifests; its files stay for the checkpoints that share them."""
        self._filesystem.rm(f"{self._base(deployment)}/manifests/{checkpoint}", recursive=True)

    def delete_earlier(self, deployment: Deployment, *, below: int) -> None:
        """Delete what earlier deployments left or still write, and what versions before this one stored, once
        all of that is of checkpoints below a number."""
        base = self._earlier(deployment.topology)
        there = self._list(base)
        unsealed = [int(name) for name in self._list(f"{base}/manifests") if _is(name)]
        old = [name for name in there if _is(name) and int(name) < deployment.deployed]
        if all(number < below for number in unsealed):
            old += [name for name in ("manifests", "files") if name in there]
        for name in old:
            self._filesystem.rm(f"{base}/{name}", recursive=True)

    def delete_topology(self, topology: str) -> None:
        """Delete every checkpoint of a topology, if there is any."""
        root = self._earlier(topology)
        if self._filesystem.exists(root):
            self._filesystem.rm(root, recursive=True)

    # ---- names -----------------------------------------------------------------------------------

    def _earlier(self, topology: str) -> str:
        return f"{self._root}/{_plain(topology)}"

    def _base(self, deployment: Deployment) -> str:
        return f"{self._earlier(deployment.topology)}/{deployment.deployed}"

    def _manifests(self, deployment: Deployment, checkpoint: int, partition: str) -> str:
        return f"{self._base(deployment)}/manifests/{checkpoint}/{_directory(partition)}"

    def _list(self, path: str) -> dict[str, int]:
        """Names and sizes of what is in a directory now; nothing if there is no such directory."""
        try:
            entries = self._filesystem.ls(path, detail=True, refresh=True)
        except FileNotFoundError:
            return {}
        return {posixpath.basename(str(one["name"]).rstrip("/")): int(one["size"] or 0) for one in entries}


def _plain(name: str) -> str:
    if not plain_name(name, LONGEST_OBJECT):
        raise DamagedError(f"{name!r} is not a name that anything is stored under")
    return name


def _directory(partition: str) -> str:
    return _plain(partition_directory(partition))


def _object_name(name: str, checksum: str) -> str:
    """Another content has another name; versions before this one took no checksum."""
    return _plain(f"{name}.{checksum}" if checksum else name)


def _version(stored: StoredManifest) -> str:
    return f"{stored.generation}.{stored.attempt}.json"


def _numbers(name: str) -> tuple[int, int] | None:
    """Generation and attempt of a manifest by its name."""
    generation, _, rest = name.removesuffix(".json").partition(".")
    return (int(generation), int(rest)) if name.endswith(".json") and _is(generation) and _is(rest) else None


def _is(text: str) -> bool:
    """Whether it is a number."""
    return text.isascii() and text.isdigit()


def _words(topology: str, deployed: int, partition: str, checkpoint: int) -> str:
    return f"the state of {partition} of {topology!r}, deployment {deployed}, checkpoint {checkpoint}"


def _link_or_copy(source: Path, target: Path) -> None:
    """Bring an immutable file to `target`: as a hard link on the same disk (the content then outlives the
    node's directory), else as a copy."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copyfile(source, target)
