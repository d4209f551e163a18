"""A checkpoint as one file, which a deployment can begin from: what a savepoint is.

A tar archive, uncompressed:

    savepoint.json                       the checkpoint's record, and its partitions, sealed
    manifests/<partition directory>.json the manifest of one partition, sealed
    files/<partition directory>/<file>   a state file that it names

Everything is read before anything counts: members that are not named, are no plain files, or are not what
their checksums say make the archive useless. Nothing is unpacked by the names that an archive gives.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from domain.topology import Topology, TopologyError, TopologySpec, partition_directory
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, Found, StoredManifest
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.records import CheckpointRecord, decode_record
from spark_jobs.state.sealed import UNREADABLE, DamagedError, seal, unseal
from spark_jobs.state.store import Manifest, decode_manifest, difference

INDEX = "savepoint.json"
FORMAT = 1

Progress = Callable[[str, int, int], None]
"""What is copied, how many partitions were, and of how many."""


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    record: msgspec.Raw
    partitions: list[str]


_index = msgspec.json.Decoder(_Index)


def archive_write(
    storage: CheckpointStorage,
    deployment: Deployment,
    checkpoint: int,
    target: Path,
    *,
    progress: Progress | None = None,
) -> CheckpointRecord:
    """Copy a complete checkpoint into a file. Raises `DamagedError` if a part of it is missing or changed,
    or it was taken again meanwhile, and `StorageError`."""
    record = storage.record(deployment, checkpoint)
    partitions = _partitions(record)
    manifests = {one: storage.find(deployment, checkpoint, one) for one in partitions}
    index = _Index(
        format=FORMAT, record=msgspec.Raw(msgspec.json.encode(record)), partitions=list(partitions)
    )
    with tempfile.TemporaryDirectory(prefix="savepoint-", dir=target.parent) as scratch:
        copy = Path(scratch) / "file"
        with tarfile.open(target, "w") as archive:
            _add(archive, INDEX, seal(msgspec.json.encode(index)))
            for number, partition in enumerate(partitions):
                if progress is not None:
                    progress(partition, number, len(partitions))
                found = manifests[partition]
                _add(archive, _manifest_name(partition), seal(msgspec.json.encode(found.manifest)))
                for name, entry in {one.name: one for one in found.manifest.files()}.items():
                    storage.fetch(found, entry, copy)
                    with copy.open("rb") as file:
                        archive.addfile(_member(_file_name(partition, name), entry.bytes), file)
                    copy.unlink()
    _require_one_history(storage, deployment, record, manifests)
    with SavepointArchive(target) as archive:
        return archive.record


def _require_one_history(
    storage: CheckpointStorage, deployment: Deployment, record: CheckpointRecord, manifests: dict[str, Found]
) -> None:
    """A topology that was put back to an older checkpoint takes the same number again. Raises `DamagedError`
    if it did, or has begun to, since the record was read."""
    number = record.checkpoint
    if (
        len({one.job for one in manifests.values()}) > 1
        or any(storage.find(deployment, number, one) != found for one, found in manifests.items())
        or storage.record(deployment, number) != record
    ):
        what = f"checkpoint {number} of {record.topology!r} was taken again while it was copied"
        raise DamagedError(f"{what}: copy it anew")


class SavepointArchive:
    """A whole archive: `record`, and of each of its `partitions` the manifest and the files."""

    def __init__(self, path: Path) -> None:
        """Reads the index and the manifests. Raises `DamagedError` for what is no archive of a savepoint."""
        self.path = path
        try:
            self._archive = tarfile.open(path, "r:")  # noqa: SIM115 - open as long as this is
        except (tarfile.TarError, OSError, EOFError) as error:
            raise DamagedError(f"{path.name} is no archive of a savepoint: {error}") from error
        try:
            self._members = self._listed()
            index = self._read_index()
            self.record: CheckpointRecord = decode_record(bytes(index.record), f"{path.name}: {INDEX}")
            self.partitions: list[str] = index.partitions
            self._require_its_partitions()
            self.manifests = {one: self._read_manifest(one) for one in self.partitions}
            self._require_exactly_what_is_named()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, progress: Progress | None = None) -> None:
        """Read everything. Raises `DamagedError` for the first file that is not what was written."""
        with tempfile.TemporaryDirectory(prefix="savepoint-") as name:
            for number, partition in enumerate(self.partitions):
                if progress is not None:
                    progress(partition, number, len(self.partitions))
                with self.files(partition, Path(name)):
                    pass

    @contextmanager
    def files(self, partition: str, directory: Path) -> Iterator[list[tuple[ChunkEntry, Path]]]:
        """The state files of a partition, in `directory` for as long as the block runs. Raises
        `DamagedError`."""
        found: list[tuple[ChunkEntry, Path]] = []
        try:
            for number, entry in enumerate(self.manifests[partition].files()):
                member = self._members[_file_name(partition, entry.name)]
                path = directory / f"{number}.state"
                found.append((entry, path))
                source = self._archive.extractfile(member)
                if source is None:
                    raise DamagedError(f"{self._where(member.name)} is no file")
                with path.open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
                if problem := difference(entry, path):
                    raise DamagedError(f"{self._where(member.name)} is damaged: {problem}")
            yield found
        except tarfile.TarError as error:
            raise DamagedError(f"{self.path.name} is damaged: {error}") from error
        finally:
            for _, path in found:
                path.unlink(missing_ok=True)

    def _listed(self) -> dict[str, tarfile.TarInfo]:
        members: dict[str, tarfile.TarInfo] = {}
        try:
            for member in self._archive:
                # A sparse one may be larger than the archive.
                if not member.isreg() or member.issparse():
                    raise DamagedError(f"{self._where(member.name)} is no plain file")
                if member.name in members:
                    raise DamagedError(f"{self._where(member.name)} is there twice")
                members[member.name] = member
        except (tarfile.TarError, OSError, EOFError) as error:
            raise DamagedError(f"{self.path.name} is no whole archive: {error}") from error
        return members

    def _read_index(self) -> _Index:
        if INDEX not in self._members:
            raise DamagedError(f"{self.path.name} is no archive of a savepoint: it has no {INDEX}")
        where = self._where(INDEX)
        try:
            index = _index.decode(unseal(self._document(INDEX), where))
        except UNREADABLE as error:
            raise DamagedError(f"{where} is damaged: {error}") from error
        if index.format != FORMAT:
            raise DamagedError(f"{where} is of format {index.format}, and this version reads {FORMAT}")
        return index

    def _require_its_partitions(self) -> None:
        """Those of the topology whose checkpoint it is."""
        if sorted(self.partitions) != sorted(_partitions(self.record)):
            what = f"does not name the partitions of {self.record.topology!r}"
            raise DamagedError(f"{self._where(INDEX)} {what}")

    def _read_manifest(self, partition: str) -> Manifest:
        name = _manifest_name(partition)
        if name not in self._members:
            raise DamagedError(f"{self.path.name} has no state of {partition}")
        where = self._where(name)
        return decode_manifest(unseal(self._document(name), where), where, epoch=self.record.checkpoint)

    def _document(self, name: str) -> bytes:
        member = self._members[name]
        file = self._archive.extractfile(member)
        content = file.read() if file is not None else b""
        if len(content) != member.size:
            raise DamagedError(f"{self._where(name)} is cut off")
        return content

    def _require_exactly_what_is_named(self) -> None:
        named = {INDEX, *(_manifest_name(one) for one in self.partitions)}
        for partition, manifest in self.manifests.items():
            named |= {_file_name(partition, entry.name) for entry in manifest.files()}
        if missing := sorted(named.difference(self._members)):
            raise DamagedError(f"{self._where(missing[0])} is missing")
        if surplus := sorted(set(self._members).difference(named)):
            raise DamagedError(f"{self._where(surplus[0])} belongs to no partition of the savepoint")

    def _where(self, name: str) -> str:
        return f"{self.path.name}: {name}"


def archive_store(
    archive: SavepointArchive,
    storage: CheckpointStorage,
    partitions: Sequence[str],
    *,
    topology: str,
    deployed: int,
    scratch: Path,
) -> int:
    """Make the savepoint a checkpoint of a deployment, as far as partitions of it are named; returns the
    bytes of their states. May be repeated. Raises `DamagedError` and `StorageError`."""
    stored = 0
    for partition in partitions:
        manifest = msgspec.structs.replace(archive.manifests[partition], generation=deployed)
        with archive.files(partition, scratch) as files:
            storage.store(
                StoredManifest(
                    topology=topology,
                    deployed=deployed,
                    partition=partition,
                    checkpoint=archive.record.checkpoint,
                    generation=deployed,
                    attempt=0,
                    manifest=msgspec.Raw(msgspec.json.encode(manifest)),
                ),
                files,
            )
        stored += manifest.bytes
    return stored


def _partitions(record: CheckpointRecord) -> Sequence[str]:
    """Of the topology whose checkpoint it is. Raises `DamagedError`."""
    try:
        topology = Topology(msgspec.convert(record.spec, TopologySpec))
    except (msgspec.ValidationError, TopologyError) as error:
        what = f"the specification of {record.topology!r} in checkpoint {record.checkpoint}"
        raise DamagedError(f"{what} cannot be read: {error}") from error
    if topology.name != record.topology:
        raise DamagedError(f"the record of {record.topology!r} has the specification of {topology.name!r}")
    return topology.partitions


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_member(name, len(content)), io.BytesIO(content))


def _member(name: str, size: int) -> tarfile.TarInfo:
    """Nothing of the host that makes it."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _manifest_name(partition: str) -> str:
    return f"manifests/{partition_directory(partition)}.json"


def _file_name(partition: str, name: str) -> str:
    return f"files/{partition_directory(partition)}/{name}"
