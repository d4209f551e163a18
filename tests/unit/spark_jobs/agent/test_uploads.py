from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from domain.messages import CheckpointAck
from harness.eventually import eventually
from spark_jobs.agent import uploads
from spark_jobs.agent.pace import Bucket, Pace, Slot, slot
from spark_jobs.agent.uploads import NICENESS, Uploader, waiting_snapshots
from spark_jobs.state import checkpoint_storage
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.directory_storage import MARK
from spark_jobs.state.sealed import checksum_of, seal, unseal
from spark_jobs.state.snapshot import leave_snapshot
from spark_jobs.state.store import Manifest

TOPOLOGY = "hashtags"
LOWEST = 19
"""Of the priorities that Linux has."""


class Node:
    """A node's directory with an uploader, and the acknowledgements it wrote."""

    def __init__(self, root: Path, url: str) -> None:
        self.home = root / "node-1"
        self.acks: list[tuple[str, CheckpointAck, str]] = []
        self.reachable = True
        self.answering = threading.Event()
        self.answering.set()
        self.uploader = Uploader(
            node="node-1", node_home=self.home, storage=CheckpointStorage(url), acknowledge=self._acknowledge
        )

    def _acknowledge(self, topology: str, ack: CheckpointAck, directory: str) -> bool:
        assert self.answering.wait(5)
        if self.reachable:
            self.acks.append((topology, ack, directory))
        return self.reachable

    def snapshot(
        self,
        checkpoint: int,
        files: dict[str, bytes],
        *,
        index: int = 0,
        generation: int = 2,
        attempt: int = 0,
        deployed: int = 2,
        spread: float = 0.0,
    ) -> Path:
        directory = f"O3-{index}"
        state = self.home / "state" / TOPOLOGY / str(deployed) / directory
        state.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (state / name).write_bytes(content)
        entries = [ChunkEntry(n, 1, len(content), {}, checksum_of(content)) for n, content in files.items()]
        return leave_snapshot(
            self.home,
            TOPOLOGY,
            f"O3[{index}]",
            generation,
            Manifest(epoch=checkpoint, generation=generation, tables={"rows": entries}),
            attempt=attempt,
            deployed=deployed,
            spread=spread,
        )


def stored(root: Path, name: str) -> bytes:
    """The content of the one stored file of that name."""
    (path,) = (root / "checkpoints" / TOPOLOGY).glob(f"*/files/O3-0/{name}.*")
    return path.read_bytes()


def stored_files(root: Path, checkpoint: int) -> list[str]:
    found = CheckpointStorage(f"file://{root}/checkpoints").find(Deployment(TOPOLOGY, 2), checkpoint, "O3[0]")
    return [entry.name for entry in found.manifest.files()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, f"file://{tmp_path}/checkpoints")


def test_files_manifest_and_acknowledgement(node: Node, tmp_path: Path) -> None:
    path = node.snapshot(10, {"a.arrow": b"aaaa", "b.arrow": b"bb"})
    assert node.uploader.upload(path)
    assert stored(tmp_path, "a.arrow") == b"aaaa"
    assert stored_files(tmp_path, 10) == ["a.arrow", "b.arrow"]
    [(topology, ack, directory)] = node.acks
    assert (topology, directory) == (TOPOLOGY, "O3-0")
    assert (ack.partition, ack.checkpoint, ack.generation, ack.node) == ("O3[0]", 10, 2, "node-1")
    assert (ack.size_bytes, ack.files, ack.error, ack.deployed) == (6, 2, "", 2)
    assert not path.exists()
    assert not path.parent.exists()
    assert not list((tmp_path / "checkpoints").rglob("*.partial"))


def test_nothing_is_uploaded_before_it_may_begin(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be of a topology that was deleted."""
    monkeypatch.setattr(uploads, "POLL_INTERVAL", 0.01)
    looks: list[bool] = []

    class May(threading.Event):
        def is_set(self) -> bool:
            looks.append(super().is_set())
            return looks[-1]

    node.uploader._begin = may = May()
    node.snapshot(10, {"a.arrow": b"aaaa"})
    node.uploader.start()
    eventually(lambda: len(looks) >= 3)
    assert not node.acks
    may.set()
    eventually(lambda: len(node.acks) == 1)
    node.uploader.finish()


def test_only_what_the_storage_lacks_is_sent(node: Node) -> None:
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"a" * 5000}))
    node.uploader.upload(node.snapshot(20, {"a.arrow": b"a" * 5000, "b.arrow": b"b" * 10}))
    assert node.acks[1][1].size_bytes == 5010
    assert node.acks[1][1].uploaded_bytes < 1000
    ack = node.acks[1][1]
    assert ack.taken_at <= time.time()
    assert 0 <= ack.waited <= time.time() - ack.taken_at


def test_what_storing_takes_of_the_cpu_is_told(node: Node) -> None:
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"a" * 20_000_000}))
    node.uploader.upload(node.snapshot(20, {"a.arrow": b"a" * 20_000_000}))
    first, again = (ack.cpu_seconds for _, ack, _ in node.acks)
    assert first > again > 0, "the second has nothing to send"


def test_a_large_upload_goes_on_in_groups_of_files(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_storage, "GROUP", 10_000)
    seen: list[tuple[int, float]] = []

    def pace(self: Pace, stored: float) -> bool:
        names = [path.name for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
        seen.append((sum(".arrow" in name for name in names), round(stored, 2)))
        assert not any(name.endswith(".json") for name in names), "the manifest comes last"
        return True

    monkeypatch.setattr(Pace, "__call__", pace)
    files = {f"{number}.arrow": bytes([number]) * 5_000 for number in range(4)}
    assert node.uploader.upload(node.snapshot(10, files | {"4.arrow": b"e" * 20_000}, spread=60.0))
    assert seen == [(0, 0.0), (2, 0.25), (4, 0.5)]
    assert stored_files(tmp_path, 10) == [*files, "4.arrow"]


def test_an_upload_that_is_late_goes_on_with_all_that_is_left(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_storage, "GROUP", 1)
    said = iter([True, False])
    monkeypatch.setattr(Pace, "__call__", lambda self, stored: next(said))
    files = {f"{number}.arrow": bytes([number]) for number in range(4)}
    assert node.uploader.upload(node.snapshot(10, files, spread=60.0))
    assert next(said, None) is None
    assert stored_files(tmp_path, 10) == list(files)
    assert node.acks[0][1].error == ""


def test_an_upload_for_which_the_job_waits_has_no_pace(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def pace(self: Pace, stored: float) -> bool:
        asked.append(stored)
        return False

    monkeypatch.setattr(Pace, "__call__", pace)
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"aaaa"}))
    assert asked == []
    node.uploader.upload(node.snapshot(20, {"b.arrow": b"aaaa"}, spread=1.0))
    assert asked == [0.0]


def test_uploads_tell_what_they_take(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    monkeypatch.setattr(Bucket, "took", lambda self, seconds: taken.append(seconds))
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"a" * 20_000_000}))
    (_, ack, _) = node.acks[0]
    assert 0.0 < sum(taken) <= ack.cpu_seconds


def test_partitions_of_a_checkpoint_share_the_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    slots: dict[float, list[tuple[int, int]]] = {}

    def noted(*, taken_at: float, spread: float, place: int, of: int) -> Slot:
        slots.setdefault(spread, []).append((place, of))
        return slot(taken_at=taken_at, spread=spread, place=place, of=of)

    monkeypatch.setattr(uploads, "slot", noted)
    for index in range(3):
        node.snapshot(10, {"a.arrow": b"a"}, index=index, spread=3.0)
    node.snapshot(20, {"a.arrow": b"a"}, spread=2.0)
    poll_until_done(node)
    assert {spread: sorted(places) for spread, places in slots.items()} == {
        3.0: [(0, 3), (1, 3), (2, 3)],
        2.0: [(0, 1)],
    }


@pytest.mark.skipif(sys.platform != "linux", reason="only there a thread has a priority of its own")
def test_uploads_give_way_and_the_agent_does_not(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = os.getpriority(os.PRIO_PROCESS, 0), list[int]()
    upload = node.uploader.upload

    def noted(path: Path, place: int, of: int) -> bool:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return upload(path, place, of)

    monkeypatch.setattr(node.uploader, "upload", noted)
    node.snapshot(10, {"a.arrow": b"aaaa"})
    poll_until_done(node)
    assert seen == [min(before + NICENESS, LOWEST)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_stored_files_survive_the_nodes_disk(node: Node, tmp_path: Path) -> None:
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"kept"}))
    shutil.rmtree(node.home)
    assert stored(tmp_path, "a.arrow") == b"kept"


def test_without_zookeeper_the_snapshot_waits(node: Node) -> None:
    path = node.snapshot(10, {"a.arrow": b"aaaa"})
    node.reachable = False
    assert not node.uploader.upload(path)
    assert path.exists()
    node.reachable = True
    assert node.uploader.upload(path)
    assert node.acks[0][1].error == ""


def test_a_failed_upload_is_acknowledged_with_what_and_where(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the directory should be")
    node = Node(tmp_path, f"file://{tmp_path}/checkpoints")
    path = node.snapshot(10, {"a.arrow": b"aaaa"})
    assert node.uploader.upload(path)
    assert "Not a directory" in node.acks[0][1].error
    assert str(tmp_path / "checkpoints") in node.acks[0][1].error
    assert (node.home / "state" / TOPOLOGY / "2" / "O3-0" / "a.arrow").read_bytes() == b"aaaa"

    (tmp_path / "checkpoints").unlink()
    node.uploader.upload(node.snapshot(20, {"a.arrow": b"aaaa"}))
    assert node.acks[1][1].error == ""


def test_a_full_disk_leaves_nothing_half_written(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_disk(source: object, target: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def full_disk(source: Path, target: Path) -> None:
        target.write_bytes(b"aa")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(os, "link", other_disk)
    monkeypatch.setattr(shutil, "copyfile", full_disk)
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"aaaa"}))
    assert "No space left on device" in node.acks[0][1].error
    left = [path.name for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert left == [MARK]


def test_a_copy_is_made_where_links_are_impossible(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_disk(source: object, target: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", other_disk)
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"aaaa"}))
    assert node.acks[0][1].error == ""
    assert stored(tmp_path, "a.arrow") == b"aaaa"


def test_a_state_file_that_vanished_is_an_error(node: Node) -> None:
    path = node.snapshot(10, {"a.arrow": b"aaaa"})
    (node.home / "state" / TOPOLOGY / "2" / "O3-0" / "a.arrow").unlink()
    node.uploader.upload(path)
    assert "a.arrow is damaged: it is missing" in node.acks[0][1].error


@pytest.mark.parametrize("content", [b"", b"aaa", b"aaab"])
def test_a_state_file_that_is_damaged_is_not_stored(node: Node, tmp_path: Path, content: bytes) -> None:
    """A host that crashed may have left it empty."""
    path = node.snapshot(10, {"a.arrow": b"aaaa"})
    source = node.home / "state" / TOPOLOGY / "2" / "O3-0" / "a.arrow"
    source.write_bytes(content)
    node.uploader.upload(path)
    assert f"{source} is damaged" in node.acks[0][1].error
    assert not list((tmp_path / "checkpoints").rglob("*.arrow*"))


def rewritten(path: Path, **changes: object) -> Path:
    """With another content and the right checksum."""
    snapshot = msgspec.json.decode(unseal(path.read_bytes(), str(path)))
    path.write_bytes(seal(msgspec.json.encode({**snapshot, **changes})))
    return path


def test_a_name_with_a_path_is_refused(node: Node, tmp_path: Path) -> None:
    path = node.snapshot(10, {"a.arrow": b"aaaa"})
    evil = msgspec.json.decode(unseal(path.read_bytes(), str(path)))["manifest"]
    evil["tables"]["rows"][0][0 if isinstance(evil["tables"]["rows"][0], list) else "name"] = "../a.arrow"
    node.uploader.upload(rewritten(path, manifest=evil))
    assert "'../a.arrow', which is not the name of a state file" in node.acks[0][1].error
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"topology": "other"},
        {"topology": "../../other"},
        {"partition": "O4[0]"},
        {"partition": "../O4[0]"},
        {"checkpoint": 11},
        {"generation": 9},
        {"deployed": 1},
    ],
)
def test_a_snapshot_of_something_else_than_its_path_says_is_dropped(
    node: Node, tmp_path: Path, changes: dict[str, object]
) -> None:
    path = rewritten(node.snapshot(10, {"a.arrow": b"aaaa"}), **changes)
    assert node.uploader.upload(path)
    assert not path.exists()
    assert node.acks == []
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("damage", ["{", "", "no JSON"])
def test_damaged_snapshot_is_dropped(node: Node, damage: str) -> None:
    path = node.snapshot(10, {"a.arrow": b"aaaa"})
    path.write_text(damage)
    assert node.uploader.upload(path)
    assert not path.exists()
    assert node.acks == []


def test_snapshots_wait_in_order_of_their_checkpoints(node: Node) -> None:
    for checkpoint in (100, 20, 3):
        node.snapshot(checkpoint, {"a.arrow": b"a"})
    (node.home / "snapshots" / TOPOLOGY / "3.2.0.2" / "O4-0.json.tmp").write_text("being written")
    found = [path.parent.name for path in waiting_snapshots(node.home / "snapshots")]
    assert found == ["3.2.0.2", "20.2.0.2", "100.2.0.2"]


def poll_until_done(node: Node) -> None:
    """At most 5 s."""
    deadline = time.monotonic() + 5
    while list(waiting_snapshots(node.home / "snapshots")) and time.monotonic() < deadline:
        node.uploader.poll()
        time.sleep(0.01)


def test_of_several_attempts_only_the_newest_is_stored(node: Node, tmp_path: Path) -> None:
    node.snapshot(10, {"a.arrow": b"a"}, generation=2, attempt=9)
    node.snapshot(10, {"c.arrow": b"c"}, generation=3, attempt=11)
    node.snapshot(10, {"b.arrow": b"b"}, generation=2, attempt=100)
    node.snapshot(20, {"d.arrow": b"d"}, generation=2, attempt=8)
    poll_until_done(node)
    assert stored_files(tmp_path, 10) == ["c.arrow"]
    assert sorted((ack.checkpoint, ack.generation, ack.attempt) for _, ack, _ in node.acks) == [
        (10, 3, 11),
        (20, 2, 8),
    ]


def test_an_older_attempt_that_is_being_uploaded_ends_first(node: Node, tmp_path: Path) -> None:
    node.answering.clear()
    node.snapshot(10, {"a.arrow": b"a"}, attempt=1)
    node.uploader.poll()
    node.snapshot(10, {"b.arrow": b"b"}, attempt=2)
    for _ in range(5):
        node.uploader.poll()
        time.sleep(0.02)
    assert stored_files(tmp_path, 10) == ["a.arrow"], "the newer one waits"
    node.answering.set()
    poll_until_done(node)
    assert stored_files(tmp_path, 10) == ["b.arrow"]
    assert [ack.attempt for _, ack, _ in node.acks] == [1, 2]


@pytest.mark.parametrize("name", ["10.2", "10.2.0"])
def test_snapshots_of_a_version_that_named_no_deployment_fail(node: Node, name: str) -> None:
    """Of which deployment their files are is not known. No driver waits for them."""
    path = node.snapshot(10, {"a.arrow": b"a"})
    before = msgspec.json.decode(unseal(path.read_bytes(), str(path)))
    del before["deployed"]
    path.write_bytes(msgspec.json.encode(before))
    path.parent.rename(path.parent.with_name(name))
    poll_until_done(node)
    ((_, ack, _),) = node.acks
    assert (ack.checkpoint, ack.deployed) == (10, 0)
    assert "it is missing" in ack.error
    assert not list((node.home / "snapshots").glob("*/*/*.json"))


def test_a_snapshot_of_an_earlier_deployment_does_not_push_one_aside(node: Node, tmp_path: Path) -> None:
    """Although its plan had a higher generation: those of a topology of the same name began again."""
    node.snapshot(10, {"old.arrow": b"old"}, generation=7, deployed=1)
    node.snapshot(10, {"new.arrow": b"new"}, generation=2, deployed=2)
    poll_until_done(node)
    assert stored_files(tmp_path, 10) == ["new.arrow"]
    assert {(ack.generation, ack.deployed) for _, ack, _ in node.acks} == {(7, 1), (2, 2)}


def test_any_fsspec_storage_serves(tmp_path: Path) -> None:
    node = Node(tmp_path, f"memory://{tmp_path.name}")
    node.uploader.upload(node.snapshot(10, {"a.arrow": b"aaaa"}))
    node.uploader.upload(node.snapshot(20, {"a.arrow": b"aaaa"}))
    assert [ack.error for _, ack, _ in node.acks] == ["", ""]
    assert node.acks[0][1].uploaded_bytes > node.acks[1][1].uploaded_bytes
