"""What tasks leave on their node for its keeper: keys whose states are to be stored, and the state of the
partition that these are taken out of.

    <node home>/keys/<topology>/<deployed>/work.json          how all of it is to be stored
    <node home>/keys/<topology>/<deployed>/status.json        what the keeper has done so far
    <node home>/keys/<topology>/<deployed>/fetching.json      whether fetches bypass the storage
    <node home>/keys/<topology>/<deployed>/<partition directory>/<generation>.<epoch>.<any>/
                                    a request: `request.json`, and links to the files of the state;
                                    `new.<generation>...` until its epoch is known to count

A link keeps its file although the state is trimmed. A request goes when it is stored; until then it is tried
again, also by another keeper after this one has died. An epoch counts when the next job is told that the
partition has applied it. What was given up is not stored: its epoch runs again, maybe after a fetch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final, TypeVar

import msgspec

from domain.execution.job import KeeperStatus
from domain.key_saving.breaker import Breaker
from domain.topology import TopologySpec, partition_directory
from host.durable import write_or_remove
from spark_jobs.state.node_home import KEYS, deployment_home
from spark_jobs.state.sealed import DamagedError, seal, unseal
from spark_jobs.state.store import Manifest, StateStore, plain_name

BEGAN: Final = "__began"
"""Value of a state: the epoch after which its partition began without one; 0 if it did not."""
REQUEST: Final = "request.json"
NEW: Final = "new."
WORK_FILE: Final = "work.json"
STATUS_FILE: Final = "status.json"
FETCHING_FILE: Final = "fetching.json"


class KeyWork(msgspec.Struct, frozen=True, kw_only=True):
    """checkpoints: URL of the storage. modules: those that operators may be of. force: whether what is stored
    in a directory is on disk when it counts as stored."""

    spec: TopologySpec
    checkpoints: str
    modules: list[str]
    force: bool


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    partition: str
    manifest: Manifest
    keys: list[str]


_requests = msgspec.json.Decoder(KeyRequest)
_works = msgspec.json.Decoder(KeyWork)
_statuses = msgspec.json.Decoder(KeeperStatus)
_breakers = msgspec.json.Decoder(Breaker)
Content = TypeVar("Content")


class KeyDesk:
    """The directory of one deployment on a node."""

    def __init__(self, home: Path, topology: str, deployed: int) -> None:
        self.topology, self.deployed = topology, deployed
        self.directory = deployment_home(home, KEYS, topology, deployed)

    def prepare(self, work: KeyWork) -> None:
        """Say how requests are to be stored, unless that is said already."""
        content = seal(msgspec.json.encode(work))
        path = self.directory / WORK_FILE
        if not path.exists() or path.read_bytes() != content:
            self._write(WORK_FILE, content)

    def work_version(self) -> tuple[int, int]:
        """Another one when `work` is. Raises `OSError`."""
        found = (self.directory / WORK_FILE).stat()
        return found.st_ino, found.st_mtime_ns

    def work(self) -> KeyWork:
        """Raises `OSError` and `ValueError`."""
        path = self.directory / WORK_FILE
        return _works.decode(unseal(path.read_bytes(), str(path)))

    def status(self) -> KeeperStatus:
        """As the keeper told it, with what can be seen."""
        waiting = sum(map(len, self.waiting().values()))
        told = self._read(STATUS_FILE, _statuses, KeeperStatus())
        return msgspec.structs.replace(told, waiting=waiting, fetching=self.fetching())

    def tell_status(self, status: KeeperStatus) -> None:
        self._write(STATUS_FILE, msgspec.json.encode(status))

    def fetching(self) -> Breaker:
        return self._read(FETCHING_FILE, _breakers, Breaker())

    def tell_fetching(self, breaker: Breaker) -> None:
        self._write(FETCHING_FILE, msgspec.json.encode(breaker))

    def leave(
        self, store: StateStore, partition: str, manifest: Manifest, keys: Sequence[str], *, counts: bool
    ) -> None:
        """Ask for the states of these keys, after the epoch of the manifest, to be stored. counts: the epoch
        does; otherwise `settle` will say. Raises `OSError`."""
        mine = self.directory / partition_directory(partition)
        name = f"{manifest.generation}.{manifest.epoch}.{token_hex(4)}"
        made = mine / f".{name}"
        try:
            made.mkdir(parents=True)
            for entry in manifest.files():
                os.link(store.directory / entry.name, made / entry.name)
            request = KeyRequest(partition=partition, manifest=manifest, keys=list(keys))
            (made / REQUEST).write_bytes(seal(msgspec.json.encode(request)))
            made.rename(mine / (name if counts else f"{NEW}{name}"))
        except OSError:  # as on a full disk, where its links would keep the room of what is trimmed
            shutil.rmtree(made, ignore_errors=True)
            raise

    def settle(self, partition: str, applied: int) -> None:
        """Of a partition that has applied the epochs up to this one, what was asked after these is to be
        stored, and what was asked after later ones was given up, as was what is not whole."""
        for path in _directories(self.directory / partition_directory(partition)):
            if path.name.startswith(NEW):
                name = path.name.removeprefix(NEW)
                if _age(path.with_name(name))[1] <= applied:
                    path.rename(path.with_name(name))
                else:
                    shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)

    def waiting(self) -> dict[str, list[Path]]:
        """Directory of a partition -> its requests, the oldest first."""
        found: dict[str, list[Path]] = {}
        for mine in _directories(self.directory):
            requests = [one for one in _directories(mine) if not one.name.startswith((".", NEW))]
            if requests:
                found[mine.name] = sorted(requests, key=_age)
        return found

    def _read(self, name: str, decoder: msgspec.json.Decoder[Content], default: Content) -> Content:
        """What cannot be read tells nothing: it is only counted, or found out again."""
        try:
            return decoder.decode((self.directory / name).read_bytes())
        except (OSError, ValueError):
            return default

    def _write(self, name: str, content: bytes) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = self.directory / f".{name}.{token_hex(4)}"
        write_or_remove(temporary, content)
        temporary.rename(self.directory / name)


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request that was read, and its state."""

    path: Path
    request: KeyRequest

    @classmethod
    def read(cls, path: Path) -> WaitingRequest:
        """Raises `DamagedError` and `OSError`."""
        content = unseal((path / REQUEST).read_bytes(), str(path / REQUEST))
        try:
            request = _requests.decode(content)
        except msgspec.MsgspecError as error:
            raise DamagedError(f"{path / REQUEST} is damaged: {error}") from error
        for entry in request.manifest.files():
            if not plain_name(entry.name):
                raise DamagedError(f"{path / REQUEST} names {entry.name!r}, which is no state file")
        return cls(path, request)

    @property
    def history(self) -> tuple[int, int]:
        """A later state of the same has all that an earlier one has."""
        manifest = self.request.manifest
        return manifest.generation, int(manifest.values.get(BEGAN, 0))

    def store(self) -> StateStore:
        return StateStore(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def desks(home: Path) -> Iterator[KeyDesk]:
    """Of the deployments of which tasks on a node have asked for anything."""
    for topology in _directories(home / KEYS):
        for deployed in _directories(topology):
            if deployed.name.isdigit() and (deployed / WORK_FILE).exists():
                yield KeyDesk(home, topology.name, int(deployed.name))


def _age(path: Path) -> tuple[int, ...]:
    return tuple(int(one) for one in path.name.split(".")[:2] if one.isdigit())


def _directories(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path / name for name in sorted(names)]
