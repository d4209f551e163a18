"""A deployment that begins with a savepoint of another: states, input and clock go on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from domain.execution.job import EpochPlan
from domain.execution.progress import Position
from domain.messages import DeployedSpec, LatestCheckpoint, Plan, PlanKind
from domain.topology.graph import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.driver.assembly import open_log
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError
from spark_jobs.state.archive import SavepointArchive, archive_write
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, StoredManifest
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.savepoints import SavepointStorage
from spark_jobs.state.sealed import file_checksum
from spark_jobs.state.store import Manifest

CHECKPOINT, ORIGIN, KEY = 10, 1_700_000_000_000_000, "a1"
TOPOLOGY = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="S", kind="source"),
            OperatorSpec(name="N", kind="filter", inputs=(InputSpec(source="S"),), output=True),
        ),
    )
)
PLAN = EpochPlan(
    epoch=CHECKPOINT, slices={"S": ({"tuple": 90}, {"tuple": 100})}, watermark=7, previous_watermark=6, at=1.0
)
RECORD = CheckpointRecord(
    topology="t", deployed=3, checkpoint=CHECKPOINT, version=1, spec=TOPOLOGY.to_data(),
    origin_us=ORIGIN, plan=PLAN,
)  # fmt: skip


class Channel:
    """ZooKeeper after the topology was deployed anew, with a savepoint."""

    def __init__(self, *, checkpoint: int = CHECKPOINT, kind: PlanKind = "restore") -> None:
        self.plan = Plan(
            generation=9, kind=kind, rollback=True, checkpoint=checkpoint, deployed=9,
            assignment={"S[0]": "n1", "N[0]": "n1"},
        )  # fmt: skip
        self.spec = DeployedSpec(name="t", version=2, computation=2, spec={}, savepoint=KEY)
        self.latest: LatestCheckpoint | None = None
        self.takes = True

    def complete(self, latest: LatestCheckpoint) -> bool:
        if self.takes:
            self.latest = latest
        return self.takes

    def reset_checkpoint(self) -> None:
        self.latest = None


class Place:
    """An installation that has a savepoint of deployment 3."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.url = f"file://{home}/checkpoints"
        self.path = home / "topologies" / "t" / "epochs.log"
        self.rows = home / "rows.arrow"
        with pa.ipc.new_file(self.rows, pa.schema([("n", pa.int64())])) as file:
            file.write(pa.record_batch({"n": [1, 2, 3]}))
        self.entry = ChunkEntry(
            "9.rows", 3, self.rows.stat().st_size, {"low": 1}, checksum=file_checksum(self.rows)
        )
        with closing(CheckpointStorage(self.url)) as storage:
            self.store(storage, "S[0]", [])
            self.store(storage, "N[0]", [self.entry])
            storage.store_record(RECORD)
            archive_write(storage, Deployment("t", 3), CHECKPOINT, home / "savepoint.tar")
        with closing(SavepointStorage(self.url)) as savepoints:
            savepoints.store(KEY, home / "savepoint.tar")

    def store(self, storage: CheckpointStorage, partition: str, entries: list[ChunkEntry]) -> None:
        manifest = Manifest(
            epoch=CHECKPOINT, generation=5, values={"seen": 4}, tables={"panes": entries} if entries else {}
        )
        storage.store(
            StoredManifest(
                topology="t", deployed=3, partition=partition, checkpoint=CHECKPOINT, generation=5, attempt=0,
                manifest=msgspec.Raw(msgspec.json.encode(manifest)),
            ),
            [(one, self.rows) for one in entries],
        )  # fmt: skip

    def open(self, channel: Channel, topology: Topology = TOPOLOGY) -> EpochLog:
        settings: Any = SimpleNamespace(
            home=self.home, outputs=str(self.home / "outputs"), checkpoints=self.url, force=False
        )
        coordination: Any = channel
        return open_log(settings, topology, coordination, lambda: 5_000.0)

    def state(self, partition: str) -> Manifest:
        with closing(CheckpointStorage(self.url)) as storage:
            return storage.find(Deployment("t", 9), CHECKPOINT, partition).manifest


def test_the_states_are_the_first_checkpoint_of_the_new_deployment(tmp_path: Path) -> None:
    place, channel = Place(tmp_path), Channel()
    place.open(channel).close()
    state = place.state("N[0]")
    assert (state.values, state.tables, state.generation) == ({"seen": 4}, {"panes": [place.entry]}, 9)
    with closing(CheckpointStorage(place.url)) as storage:
        found = storage.find(Deployment("t", 9), CHECKPOINT, "N[0]")
        storage.fetch(found, place.entry, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == place.rows.read_bytes()
    assert channel.latest is not None
    assert (channel.latest.checkpoint, channel.latest.kept) == (CHECKPOINT, [CHECKPOINT])
    assert (channel.latest.generation, channel.latest.size_bytes) == (9, place.entry.bytes)


def test_the_input_goes_on_where_it_was_read_up_to(tmp_path: Path) -> None:
    log = Place(tmp_path).open(Channel())
    assert (log.head, log.plans, log.origin_us) == (CHECKPOINT, {CHECKPOINT: PLAN}, ORIGIN)
    assert log.position == Position(CHECKPOINT, checkpoint=CHECKPOINT)
    assert log.started_at == 5_000.0 - CHECKPOINT * TOPOLOGY.spec.epoch_interval
    log.close()
    again = EpochLog(log.path)
    assert (again.head, again.plans, again.position) == (log.head, log.plans, log.position)
    assert (again.computation, again.generation) == (2, 0)
    assert again.begun_after == PLAN, "outputs begin with the next epoch"
    again.plan([msgspec.structs.replace(PLAN, epoch=CHECKPOINT + number) for number in (1, 2, 3)])
    again._rewrite([line for line in again._lines() if line.get("epoch") != CHECKPOINT])
    again.close()
    later = EpochLog(log.path)
    assert (later.begun_after, min(later.plans)) == (PLAN, CHECKPOINT + 1), "also when it is trimmed"
    later.start_afresh()
    assert later.begun_after is None
    later.close()


def test_what_is_new_in_the_version_has_an_empty_state(tmp_path: Path) -> None:
    place = Place(tmp_path)
    more = OperatorSpec(name="N2", kind="filter", inputs=(InputSpec(source="S"),), output=True)
    operators = (*TOPOLOGY.spec.operators, more)
    place.open(Channel(), Topology(msgspec.structs.replace(TOPOLOGY.spec, operators=operators))).close()
    assert place.state("N2[0]") == Manifest(epoch=CHECKPOINT, generation=9)
    assert place.state("S[0]").values == {"seen": 4}


def test_a_plan_of_an_incident_may_have_taken_the_place_of_the_first_one(tmp_path: Path) -> None:
    """A node was lost before the driver had begun."""
    log = Place(tmp_path).open(Channel(kind="recover"))
    assert log.position == Position(CHECKPOINT, checkpoint=CHECKPOINT)


def test_it_is_repeated_until_zookeeper_has_it(tmp_path: Path) -> None:
    place, channel = Place(tmp_path), Channel()
    channel.takes = False
    with pytest.raises(ConnectionError):
        place.open(channel)
    channel.takes = True
    with closing(SavepointStorage(place.url)) as savepoints:
        savepoints.delete(KEY)  # the log has begun: it is not needed again
    for _ in range(2):
        place.open(channel).close()
        assert channel.latest is not None
        assert channel.latest.kept == [CHECKPOINT]
        assert channel.latest.size_bytes == place.entry.bytes


def test_once_a_plan_was_adopted_it_is_a_deployment_as_any_other(tmp_path: Path) -> None:
    place, channel = Place(tmp_path), Channel()
    log = place.open(channel)
    log.deployed = 9
    log.applied(9, Position(12, checkpoint=CHECKPOINT), {})
    log.close()
    channel.latest = None
    again = place.open(channel)
    assert (again.committed, channel.latest) == (12, None)


def test_what_an_earlier_deployment_of_the_name_left_goes_first(tmp_path: Path) -> None:
    place = Place(tmp_path)
    earlier = EpochLog(place.path)
    earlier.start(at=1.0, origin_us=1)
    earlier.deployed = 3
    earlier.applied(5, Position(40, checkpoint=30), {})
    earlier.close()
    log = place.open(Channel())
    assert (log.committed, log.head) == (CHECKPOINT, CHECKPOINT)
    with closing(CheckpointStorage(place.url)) as storage:
        assert storage.deployments("t") == [9]


def test_a_plan_that_goes_on_from_another_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EpochLogError, match="is of checkpoint 10, and plan 9 goes on from 11"):
        Place(tmp_path).open(Channel(checkpoint=11))


def test_what_a_driver_that_was_killed_had_unpacked_goes(tmp_path: Path) -> None:
    place = Place(tmp_path)
    left = place.path.parent / "savepoint" / "savepoint.tar"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"a part")
    place.open(Channel()).close()
    assert [path.name for path in place.path.parent.iterdir()] == ["epochs.log"]


def test_a_savepoint_that_is_gone_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with closing(SavepointStorage(place.url)) as savepoints:
        savepoints.delete(KEY)
    with pytest.raises(EpochLogError, match=r"cannot be used: .*_savepoints/a1.tar is missing\. Undeploy"):
        place.open(Channel())
    assert not EpochLog(place.path).plans


def test_an_archive_that_was_changed_is_not_begun_with(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with SavepointArchive(tmp_path / "savepoint.tar") as archive:
        archive.check()
    content = (tmp_path / "savepoint.tar").read_bytes()
    at = content.index(place.rows.read_bytes()) + 20
    (tmp_path / "changed.tar").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with closing(SavepointStorage(place.url)) as savepoints:
        savepoints.delete(KEY)
        savepoints.store(KEY, tmp_path / "changed.tar")
    with pytest.raises(EpochLogError, match=r"files/N-0/9.rows is damaged: its checksum is not"):
        place.open(Channel())
    assert not EpochLog(place.path).plans
