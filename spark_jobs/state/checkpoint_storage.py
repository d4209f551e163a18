"""Under which names checkpoints are kept, in any storage that keeps objects by name (`state_storage.py`).

    <url>/<topology>/<deployed>/manifests/<k>/<partition directory>/<generation>.<attempt>.json
                                    the manifest of one partition in cp(P_k), sealed, with whose it is
    <url>/<topology>/<deployed>/files/<partition directory>/<file>.<checksum>
                                    a state file, for every checkpoint that names it
    <url>/<topology>/<deployed>/records/<k>.json
                                    what cp(P_k) is a checkpoint of, and where its input stood, sealed

`deployed` is the generation of the plan that deployed the topology. An object is written once: nothing takes
its name afterwards, neither a node of an earlier deployment nor a later attempt, which has a name of its own.
An upload sends only the files that the storage lacks, and a file may go once no manifest names it. What turns
out to be damaged is set aside, so that it is stored again. Agents write states, Spark tasks read them, the
driver writes records and deletes. Versions before this one wrote `manifests/<k>/<partition directory>.json`
and `files/<partition directory>/<file>` below the topology, without checksums; that is read where there is
nothing else.

No storage is believed: what was sent is looked at before it counts as stored, and what is read is checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from domain.topology import partition_directory
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.records import CheckpointRecord, decode_record
from spark_jobs.state.sealed import DIGITS, UNREADABLE, DamagedError, seal, unseal
from spark_jobs.state.state_storage import NotThereError, UnavailableError, split
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.store import LONGEST_NAME, Manifest, decode_manifest, difference, plain_name

LONGEST_OBJECT = LONGEST_NAME + 1 + DIGITS
"""Bytes of an object's name."""
GROUP = 2_000_000
"""Bytes of files that are stored at once where storing has a pace, but for a larger file."""
DAMAGED = ".damaged"
"""What follows the name of an object that was set aside."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A topology in one of its deployments: the generation of the plan that deployed it, 0 from versions of
    the control plane that did not say so."""

    topology: str
    deployed: int


_File = tuple[str, ChunkEntry, Path]
"""Its name in storage, what its manifest says of it, and where it is on the node."""


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

KnownNames = dict[int, dict[str, list[str]]]
"""Checkpoint -> name of a manifest -> the files that it names."""


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest as it was found in storage: where, and where its files are. job: generation and attempt of
    the one that left it, which is the same for all partitions of a complete checkpoint."""

    job: tuple[int, int]
    path: str
    files: str
    manifest: Manifest

    def file(self, entry: ChunkEntry) -> str:
        return f"{self.files}/{_object_name(entry.name, entry.checksum)}"


class CheckpointStorage:
    """Raises `StorageError` of the kind that the storage raises, and `DamagedError` for what is not what was
    stored."""

    def __init__(self, url: str, *, force: bool = True) -> None:
        """force: whether what is stored in a directory is on disk when it counts as stored."""
        self._storage = open_storage(url, force=force)

    @property
    def place(self) -> str:
        """How the storage is called in messages, without credentials."""
        return self._storage.place

    def close(self) -> None:
        self._storage.close()

    # ---- writing ---------------------------------------------------------------------------------

    def store(
        self,
        stored: StoredManifest,
        files: Sequence[tuple[ChunkEntry, Path]],
        pace: Callable[[float], bool] | None = None,
    ) -> int:
        """Store a partition's part of a checkpoint: the files that the storage lacks, and the manifest. It is
        all there when this returns the bytes that were sent. Raises `DamagedError` for a file that is not
        what was written on its node.

        pace: called with the share of the bytes that is stored, before more is; it may wait, and returns
        whether the rest is to be stored in small groups of files. None: all is stored at once.
        """
        deployment = Deployment(stored.topology, stored.deployed)
        directory = f"{_base(deployment)}/files/{_directory(stored.partition)}"
        there = self._storage.entries(directory)
        names = [_object_name(entry.name, entry.checksum) for entry, _ in files]
        lacking = [
            (f"{directory}/{name}", *file)
            for name, file in zip(names, files, strict=True)
            if there.get(name) != file[0].bytes
        ]
        sizes = {path: entry.bytes for path, entry, _ in lacking}
        content = seal(msgspec.json.encode(stored))
        manifest = f"{_manifests(deployment, stored.checkpoint, stored.partition)}/{_version(stored)}"
        known = self._whole_manifest(manifest)
        found = [] if lacking else [f"{directory}/{name}" for name in names]
        whole = max(1, sum(sizes.values()))
        while pace is not None and lacking and pace(1 - _bytes(lacking) / whole):
            group = _group(lacking)
            self._storage.put(self._new(group, there), {})
            lacking = lacking[len(group) :]
        self._storage.put(self._new(lacking, there), {} if known else {manifest: content})
        self._storage.confirm([*found, manifest] if known else found)
        if not known:
            sizes[manifest] = len(content)
        self._storage.look_at(sizes, self.set_aside)
        return sum(sizes.values())

    def _new(self, group: Sequence[_File], there: Container[str]) -> dict[str, Path]:
        """What to store by name, checked. there: names of objects of other sizes, which are set aside: what
        was being written when a storage that shows such things failed."""
        for _, entry, source in group:
            if problem := difference(entry, source):
                raise DamagedError(f"{source} is damaged: {problem}")
        self.set_aside(path for path, _, _ in group if split(path)[1] in there)
        return {path: source for path, _, source in group}

    def store_record(self, record: CheckpointRecord) -> None:
        """Store what a complete checkpoint is a checkpoint of, in the place of what an undone one of the same
        number was."""
        path = _record(Deployment(record.topology, record.deployed), record.checkpoint)
        content = seal(msgspec.json.encode(record))
        with contextlib.suppress(NotThereError, DamagedError):
            if self._storage.get(path) == content:
                self._storage.confirm([path])
                return
        self._storage.delete([path])
        self._storage.put({}, {path: content})
        self._storage.look_at({path: len(content)}, self.set_aside)

    def _whole_manifest(self, path: str) -> bool:
        """Whether this manifest was stored before. What is there in part is set aside."""
        try:
            with self._at(path) as where:
                unseal(self._storage.get(path), where)
        except NotThereError:
            return False
        except DamagedError:
            self.set_aside([path])
            return False
        return True

    # ---- reading ---------------------------------------------------------------------------------

    def find(self, deployment: Deployment, checkpoint: int, partition: str) -> Found:
        """The manifest of a partition in a checkpoint that is complete: of several attempts the last one.
        Raises `DamagedError` if it is missing, was changed or is another's."""
        directory = _manifests(deployment, checkpoint, partition)
        names = self._storage.entries(directory)
        versions = [version for name in names if (version := _numbers(name)) is not None]
        if not versions:
            return self._find_unsealed(deployment, checkpoint, partition, directory)
        path = f"{directory}/{'.'.join(map(str, max(versions)))}.json"
        try:
            with self._at(path) as where:
                stored = _decoded(self._storage.get(path), where)
        except NotThereError as error:
            raise self._missing(path) from error
        said = (stored.topology, stored.deployed, stored.partition, stored.checkpoint)
        asked = (deployment.topology, deployment.deployed, partition, checkpoint)
        with self._at(path) as where:
            if said != asked:
                raise DamagedError(f"{where} is {_words(*said)}, not {_words(*asked)}")
            if (stored.generation, stored.attempt) != max(versions):
                what = f"generation {stored.generation}, attempt {stored.attempt}"
                raise DamagedError(f"{where} is that of {what}")
            manifest = decode_manifest(bytes(stored.manifest), where, epoch=checkpoint)
        files = f"{_base(deployment)}/files/{_directory(partition)}"
        return Found(max(versions), path, files, manifest)

    def _find_unsealed(self, deployment: Deployment, checkpoint: int, partition: str, missing: str) -> Found:
        """As versions before this one stored it, without saying whose it is."""
        base = _earlier(deployment.topology)
        path = f"{base}/manifests/{checkpoint}/{_directory(partition)}.json"
        try:
            body = self._storage.get(path)
        except NotThereError as error:
            raise self._missing(missing) from error
        with self._at(path) as where:
            manifest = decode_manifest(body, where, epoch=checkpoint)
        return Found((0, 0), path, f"{base}/files/{_directory(partition)}", manifest)

    def _missing(self, path: str, *aside: str) -> DamagedError:
        """What to raise for something that is not there. Raises `UnavailableError` if nothing of the topology
        is there at all: then it is rather the storage that is away."""
        topology = path.partition("/")[0]
        if not self._storage.entries(topology):
            raise UnavailableError(
                f"the storage holds nothing of {self._storage.where(topology)}; is it there at all"
            )
        return DamagedError(f"{self._storage.where(path)} is missing", *aside)

    def record(self, deployment: Deployment, checkpoint: int) -> CheckpointRecord:
        """What a checkpoint is a checkpoint of. Raises `DamagedError` if that is missing, was changed or is
        another's."""
        path = _record(deployment, checkpoint)
        with self._at(path) as where:
            try:
                record = decode_record(unseal(self._storage.get(path), where), where)
            except NotThereError as error:
                why = "its checkpoint is of an earlier version, or could not be recorded: take a new one"
                raise DamagedError(f"{where} is missing; {why}") from error
            if (record.topology, record.deployed, record.checkpoint) != (
                deployment.topology,
                deployment.deployed,
                checkpoint,
            ):
                raise DamagedError(f"{where} is that of another checkpoint")
        return record

    def fetch(self, found: Found, entry: ChunkEntry, target: Path) -> None:
        """Raises `DamagedError` if the file is missing or not the one that was stored."""
        path = found.file(entry)
        try:
            self._storage.get_file(path, target)
        except NotThereError as error:
            raise self._missing(path, found.path) from error
        except DamagedError as error:
            raise DamagedError(str(error), path, found.path) from error
        if problem := difference(entry, target):
            raise DamagedError(f"{self._storage.where(path)} is damaged: {problem}", path, found.path)

    def set_aside(self, paths: Iterable[str]) -> None:
        """Rename what is damaged, so that an upload stores it again; it stays to be looked at."""
        for path in paths:
            with contextlib.suppress(NotThereError):
                self._storage.rename(path, split(path)[1] + DAMAGED)

    @contextlib.contextmanager
    def _at(self, path: str) -> Iterator[str]:
        """How an object is called in messages. What is found to be damaged is this object."""
        try:
            yield self._storage.where(path)
        except DamagedError as error:
            raise DamagedError(str(error), path) from error

    # ---- what is there ---------------------------------------------------------------------------

    def deployments(self, topology: str) -> list[int]:
        """Those that have stored something, ascending."""
        return _sorted_numbers(self._storage.entries(_earlier(topology)))

    def checkpoints(self, deployment: Deployment) -> list[int]:
        """Numbers of those that have manifests, ascending; the newest may still be under way."""
        return _sorted_numbers(self._storage.entries(f"{_base(deployment)}/manifests"))

    def earlier_checkpoints(self, topology: str) -> list[int]:
        """Of those that versions before this one stored."""
        return _sorted_numbers(self._storage.entries(f"{_earlier(topology)}/manifests"))

    def partitions(self, deployment: Deployment, checkpoint: int) -> list[str]:
        """The directories of those partitions that have a manifest in a checkpoint."""
        return sorted(self._storage.entries(f"{_base(deployment)}/manifests/{checkpoint}"))

    def earlier_partitions(self, topology: str, checkpoint: int) -> list[str]:
        """The same of a checkpoint that a version before this one stored."""
        names = self._storage.entries(f"{_earlier(topology)}/manifests/{checkpoint}")
        return sorted(name.removesuffix(".json") for name in names)

    def named(
        self, deployment: Deployment, checkpoint: int, directory: str, known: KnownNames | None = None
    ) -> set[str] | None:
        """The files that any attempt at a checkpoint names, as they are called in storage; None where there
        is no manifest. known: what manifests of this deployment name that were read before, to which this
        adds. They are written once, so none of them is read again, unless one beside it was set aside."""
        path = f"{_base(deployment)}/manifests/{checkpoint}/{directory}"
        entries = self._storage.entries(path)
        read_before = {} if known is None else known.setdefault(checkpoint, {})
        anew = any(name.endswith(DAMAGED) for name in entries)
        found: set[str] | None = None
        for name in entries:
            if _numbers(name) is None:
                continue
            one = f"{path}/{name}"
            if anew or one not in read_before:
                with self._at(one) as where:
                    stored = _decoded(self._storage.get(one), where)
                    files = decode_manifest(bytes(stored.manifest), where, epoch=checkpoint).files()
                read_before[one] = [_object_name(entry.name, entry.checksum) for entry in files]
            found = found or set()
            found.update(read_before[one])
        return found

    def files(self, deployment: Deployment, directory: str) -> dict[str, int | None]:
        """Names and sizes of the stored files of a partition."""
        return self._storage.entries(f"{_base(deployment)}/files/{directory}")

    def file_directories(self, deployment: Deployment) -> set[str]:
        """Those of partitions that have stored files, also where no checkpoint has the partition any more."""
        found = self._storage.entries(f"{_base(deployment)}/files")
        return {name for name, size in found.items() if size is None}

    # ---- deleting --------------------------------------------------------------------------------

    def tidy(self, deployment: Deployment, directory: str) -> None:
        """Delete what uploads that were broken off have left of a partition's files."""
        self._storage.tidy(f"{_base(deployment)}/files/{directory}")

    def delete_files(self, deployment: Deployment, directory: str, names: Iterable[str]) -> None:
        self._storage.delete(f"{_base(deployment)}/files/{directory}/{name}" for name in names)

    def delete_checkpoint(self, deployment: Deployment, checkpoint: int) -> None:
        """Delete its manifests; its files stay for the checkpoints that share them."""
        self._storage.delete([_record(deployment, checkpoint)])
        self._storage.remove_tree(f"{_base(deployment)}/manifests/{checkpoint}")

    def delete_earlier(self, deployment: Deployment, *, below: int) -> None:
        """Delete what earlier deployments left or still write, and what versions before this one stored, once
        all of that is of checkpoints below a number."""
        base = _earlier(deployment.topology)
        there = self._storage.entries(base)
        old = [name for name in there if _is(name) and int(name) < deployment.deployed]
        if all(number < below for number in self.earlier_checkpoints(deployment.topology)):
            old += [name for name in ("manifests", "files") if name in there]
        for name in old:
            self._storage.remove_tree(f"{base}/{name}")

    def delete_topology(self, topology: str) -> None:
        """Delete every checkpoint of a topology, if there is any."""
        self._storage.remove_tree(_earlier(topology))


def _group(files: Sequence[_File]) -> Sequence[_File]:
    """The first few of some files: so many that more would be larger than a group, at least one."""
    size = 0
    for number, (_, entry, _) in enumerate(files):
        size += entry.bytes
        if number and size > GROUP:
            return files[:number]
    return files


def _bytes(files: Iterable[_File]) -> int:
    return sum(entry.bytes for _, entry, _ in files)


def _earlier(topology: str) -> str:
    return _plain(topology)


def _base(deployment: Deployment) -> str:
    return f"{_earlier(deployment.topology)}/{deployment.deployed}"


def _manifests(deployment: Deployment, checkpoint: int, partition: str) -> str:
    return f"{_base(deployment)}/manifests/{checkpoint}/{_directory(partition)}"


def _record(deployment: Deployment, checkpoint: int) -> str:
    return f"{_base(deployment)}/records/{checkpoint}.json"


def _sorted_numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(name) for name in names if _is(name))


def _plain(name: str) -> str:
    if not plain_name(name, LONGEST_OBJECT):
        raise DamagedError(f"{name!r} is not a name that anything is stored under")
    return name


def _directory(partition: str) -> str:
    return _plain(partition_directory(partition))


def _object_name(name: str, checksum: str) -> str:
    """Another content has another name; versions before this one took no checksum."""
    return _plain(f"{name}.{checksum}" if checksum else name)


def _decoded(sealed: bytes, where: str) -> StoredManifest:
    """Raises `DamagedError`."""
    try:
        return _stored.decode(unseal(sealed, where))
    except UNREADABLE as error:
        raise DamagedError(f"{where} is damaged: {error}") from error


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
