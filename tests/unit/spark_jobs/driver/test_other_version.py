"""Another version goes on from a checkpoint: what is final stays, and new operators find an empty state."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from domain.execution.checkpoints import complete_checkpoints
from domain.execution.job import Division, EpochPlan
from domain.execution.progress import Position
from domain.messages import DeployedSpec, LatestCheckpoint, Plan
from domain.topology.graph import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.driver.assembly import open_log
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError
from spark_jobs.sinks.committed import Committed, deployment_directory
from spark_jobs.sinks.tentative import tentative_path
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, StoredManifest
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.store import Manifest

DEPLOYED, CHECKPOINT = 3, 10
TOPOLOGY = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="S", kind="source"),
            OperatorSpec(name="N", kind="filter", inputs=(InputSpec(source="S"),), output=True),
        ),
    )
)


class Channel:
    """ZooKeeper after checkpoints 7 and 10; version 2 is to go on from the newer one."""

    def __init__(self, *, computation: int = 2, **plan: Any) -> None:
        fields: dict[str, Any] = {
            "kind": "restore",
            "rollback": True,
            "checkpoint": CHECKPOINT,
            "stateless": ["N[0]"],
            **plan,
        }
        fields = {"generation": 9, **fields}
        self.plan = Plan(assignment={"S[0]": "n1", "N[0]": "n1"}, deployed=DEPLOYED, **fields)
        self.spec = DeployedSpec(name="t", version=2, computation=computation, spec={})
        self.latest = LatestCheckpoint(
            checkpoint=CHECKPOINT, generation=5, completed_at=100.0, size_bytes=7, kept=[7, CHECKPOINT],
            kept_at=[70.0, 100.0], highest=12,
        )  # fmt: skip
        self.takes = True

    def complete(self, latest: LatestCheckpoint) -> bool:
        if self.takes:
            self.latest = latest
        return self.takes


class Place:
    """An installation in which version 1 has run."""

    def __init__(self, home: Path, *, committed: int = CHECKPOINT) -> None:
        self.home = home
        self.url = f"file://{home}/checkpoints"
        self.path = home / "topologies" / "t" / "epochs.log"
        log = EpochLog(self.path)
        log.start(at=1.0, origin_us=1)
        epochs = range(8, CHECKPOINT + 4)
        log.plan([EpochPlan(epoch=e, slices={}, watermark=0, previous_watermark=0, at=0.0) for e in epochs])
        log.deployed, log.computation = DEPLOYED, 1
        shadows = {"S[0]": ("n2", CHECKPOINT)}
        log.applied(5, Position(committed, checkpoint=CHECKPOINT, shadows=shadows), {"S[0]": "n1"})
        log.close()
        self.storage = CheckpointStorage(self.url)
        for checkpoint in (7, CHECKPOINT):
            self.storage.store(self.manifest("S[0]", checkpoint), [])
        for epoch in (CHECKPOINT, CHECKPOINT + 1):
            self.output(epoch).parent.mkdir(parents=True)
            self.output(epoch).write_bytes(b"rows")

    def manifest(self, partition: str, checkpoint: int) -> StoredManifest:
        manifest = Manifest(epoch=checkpoint, generation=5, values={"seen": checkpoint})
        return StoredManifest(
            topology="t", deployed=DEPLOYED, partition=partition, checkpoint=checkpoint, generation=5,
            attempt=0, manifest=msgspec.Raw(msgspec.json.encode(manifest)),
        )  # fmt: skip

    def output(self, epoch: int) -> Path:
        files = deployment_directory(self.home / "outputs" / "t", DEPLOYED)
        return files / "Q" / "partition=0" / f"epoch={epoch}" / "part.parquet"

    def store_record(self, *, partitions: int) -> None:
        """Of the checkpoint, when N had so many partitions."""
        operators = [*TOPOLOGY.spec.operators]
        operators[1] = msgspec.structs.replace(operators[1], parallelism=partitions)
        before = Topology(msgspec.structs.replace(TOPOLOGY.spec, operators=tuple(operators)))
        plan = EpochPlan(epoch=CHECKPOINT, slices={}, watermark=0, previous_watermark=0, at=0.0)
        record = CheckpointRecord(
            topology="t", deployed=DEPLOYED, checkpoint=CHECKPOINT, version=1, spec=before.to_data(),
            origin_us=1, plan=plan,
        )  # fmt: skip
        self.storage.store_record(record)

    def open(self, channel: Channel, topology: Topology = TOPOLOGY) -> EpochLog:
        settings: Any = SimpleNamespace(
            home=self.home, outputs=str(self.home / "outputs"), checkpoints=self.url, force=False
        )
        coordination: Any = channel
        return open_log(settings, topology, coordination)

    def state(self, partition: str, checkpoint: int = CHECKPOINT) -> Manifest:
        return self.storage.find(Deployment("t", DEPLOYED), checkpoint, partition).manifest


def test_it_starts_at_the_checkpoint_with_what_is_planned_after_it(tmp_path: Path) -> None:
    log = Place(tmp_path).open(Channel())
    assert log.position == Position(CHECKPOINT, checkpoint=CHECKPOINT)
    assert (log.computation, log.generation, log.deployed, log.homes) == (2, 5, DEPLOYED, {})
    assert (log.head, CHECKPOINT + 1 in log.plans) == (CHECKPOINT + 3, True)
    log.close()
    again = EpochLog(log.path)
    assert (again.position, again.computation) == (log.position, 2)


def test_the_checkpoint_has_an_empty_state_of_what_is_new(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(DamagedError):
        place.state("N[0]")
    place.open(Channel()).close()
    assert place.state("N[0]") == Manifest(epoch=CHECKPOINT, generation=9)
    assert place.state("S[0]").values == {"seen": CHECKPOINT}


WIDER = Topology(
    msgspec.structs.replace(
        TOPOLOGY.spec,
        operators=(
            TOPOLOGY.spec.operators[0],
            msgspec.structs.replace(TOPOLOGY.spec.operators[1], parallelism=3),
        ),
    )
)


def test_what_is_divided_stays_as_it_was_and_is_complete(tmp_path: Path) -> None:
    """Retention looks for a manifest of each partition; the record says which of them are states."""
    place = Place(tmp_path)
    place.store_record(partitions=2)
    for partition in ("N[0]", "N[1]"):
        place.storage.store(place.manifest(partition, CHECKPOINT), [])
    log = place.open(Channel(stateless=[], divided=["N"]), WIDER)
    assert log.division == Division(checkpoint=CHECKPOINT, operators=["N"])
    log.close()
    assert EpochLog(log.path).division == log.division
    assert [place.state(f"N[{index}]").values for index in range(3)] == [{"seen": 10}, {"seen": 10}, {}]
    record = place.storage.record(Deployment("t", DEPLOYED), CHECKPOINT)
    assert record.spec["operators"][1]["parallelism"] == 2


def test_nothing_is_divided_without_a_record_of_what_it_was(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(EpochLogError, match=r"the state of N is to be divided anew, and .* is missing"):
        place.open(Channel(stateless=[], divided=["N"]), WIDER)
    assert EpochLog(place.path).computation == 1


@pytest.mark.parametrize(("said", "highest"), [(12, 12), (0, CHECKPOINT)])
def test_only_that_checkpoint_is_left_to_go_back_to(tmp_path: Path, said: int, highest: int) -> None:
    """0: from a version that did not say it; no number is used again."""
    channel = Channel()
    channel.latest = msgspec.structs.replace(channel.latest, highest=said)
    log = Place(tmp_path).open(channel)
    latest = channel.latest
    assert (latest.checkpoint, latest.kept, latest.kept_at) == (CHECKPOINT, [CHECKPOINT], [100.0])
    assert (latest.highest, latest.generation) == (highest, 5)
    assert complete_checkpoints(latest) == [log.position.checkpoint]


def test_rows_that_were_written_and_not_committed_go(tmp_path: Path) -> None:
    """Of an operator that the new version does not have nothing would take their place."""
    place = Place(tmp_path)
    tentative = tentative_path(tmp_path / "outputs", "t", DEPLOYED, "Q", 0)
    for epoch in (CHECKPOINT, CHECKPOINT + 1):
        (tentative / f"epoch={epoch}").mkdir(parents=True)
    place.open(Channel()).close()
    assert place.output(CHECKPOINT).exists()
    assert not place.output(CHECKPOINT + 1).parent.exists()
    assert [path.name for path in tentative.iterdir()] == [f"epoch={CHECKPOINT}"]


def test_it_is_repeated_until_the_log_says_so(tmp_path: Path) -> None:
    place, channel = Place(tmp_path), Channel()
    channel.takes = False
    with pytest.raises(ConnectionError):
        place.open(channel)
    channel.takes = True
    for _ in range(2):
        log = place.open(channel)
        assert log.computation == 2
        log.close()


def test_a_plan_of_an_incident_may_have_taken_the_place_of_the_first_one(tmp_path: Path) -> None:
    """A node was lost before the driver had begun."""
    log = Place(tmp_path).open(Channel(kind="recover", generation=10))
    assert log.position == Position(CHECKPOINT, checkpoint=CHECKPOINT)


def test_rows_that_are_final_never_change(tmp_path: Path) -> None:
    place = Place(tmp_path, committed=CHECKPOINT + 1)
    with pytest.raises(EpochLogError, match=r"final up to epoch 11, .* checkpoint 10: rows in between would"):
        place.open(Channel())
    assert place.output(CHECKPOINT + 1).exists()
    assert EpochLog(place.path).computation == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b'{"topology":"t","deployed":3,"epoch":12}',
            r"final up to epoch 12, .* checkpoint 10: rows in between",
        ),
        (b'{"topology":"t","depl', r"final is not known: .*committed.json"),
    ],
)
def test_rows_that_readers_have_seen_never_change(tmp_path: Path, content: bytes, said: str) -> None:
    """The power was lost, and with it the last lines of the log."""
    place = Place(tmp_path)
    (tmp_path / "outputs" / "t" / "committed.json").write_bytes(content)
    with pytest.raises(EpochLogError, match=said):
        place.open(Channel())
    assert place.output(CHECKPOINT + 1).exists()
    assert EpochLog(place.path).computation == 1


@pytest.mark.parametrize(("deployed", "epoch"), [(DEPLOYED, CHECKPOINT), (DEPLOYED - 1, CHECKPOINT + 5)])
def test_what_readers_have_seen_of_it_may_be_in_the_checkpoint(
    tmp_path: Path, deployed: int, epoch: int
) -> None:
    """Epochs of another deployment are others."""
    place = Place(tmp_path)
    told = Committed(topology="t", deployed=deployed, epoch=epoch)
    (tmp_path / "outputs" / "t" / "committed.json").write_bytes(msgspec.json.encode(told))
    assert place.open(Channel()).computation == 2


@pytest.mark.parametrize("checkpoint", [8, 9])
def test_a_checkpoint_that_is_not_kept_is_refused(tmp_path: Path, checkpoint: int) -> None:
    place = Place(tmp_path, committed=checkpoint)
    with pytest.raises(
        EpochLogError, match=f"checkpoint {checkpoint}, .* is not kept; those that are: 7, 10"
    ):
        place.open(Channel(checkpoint=checkpoint))


def test_a_checkpoint_whose_epochs_the_log_has_not_is_refused(tmp_path: Path) -> None:
    """It has those after 7."""
    place, channel = Place(tmp_path, committed=5), Channel(checkpoint=5)
    channel.latest = msgspec.structs.replace(channel.latest, kept=[5, CHECKPOINT])
    with pytest.raises(EpochLogError, match=r"checkpoint 5, .* is not kept"):
        place.open(channel)
    assert EpochLog(place.path).computation == 1


def test_without_a_plan_that_says_from_where_it_does_not_go_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(EpochLogError, match="no plan says from which checkpoint"):
        place.open(Channel(generation=5))
    assert EpochLog(place.path).computation == 1


@pytest.mark.parametrize("computation", [0, 1])
def test_a_version_with_the_same_rows_goes_on_where_it_was(tmp_path: Path, computation: int) -> None:
    """0: from a control plane that did not say it."""
    place, channel = Place(tmp_path, committed=CHECKPOINT + 1), Channel(computation=computation)
    log = place.open(channel)
    assert (log.committed, log.computation, log.homes) == (CHECKPOINT + 1, 1, {"S[0]": "n1"})
    assert channel.latest.kept == [7, CHECKPOINT]
    assert place.output(CHECKPOINT + 1).exists()
    log.close()
