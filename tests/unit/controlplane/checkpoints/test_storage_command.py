"""`manage.py checkpoints`: what the storage holds of a topology, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.topologies.models import Topology
from spark_jobs.state.sealed import unseal
from spark_jobs.state.store import EMPTY, StateStore
from tests.unit.controlplane.specs import spec_of
from tests.unit.spark_jobs.state.conformance.states import TOPOLOGY, Kept, Objects, flipped, grown, upload


class Command:
    """Runs it, and has what is stored: 10 and 20 of two partitions, which are complete, a part of 30."""

    def __init__(self, storage: Kept, root: Path) -> None:
        self.objects = Objects(storage)
        for index in (0, 1):
            store = StateStore(root / f"node-{index}")
            first = grown(store, EMPTY, 10)
            second = grown(store, first, 20)
            for manifest in (first, second):
                upload(storage, store, manifest, partition=f"O3[{index}]")
        upload(storage, store, grown(store, second, 30), partition="O3[1]")

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output."""
        out = StringIO()
        try:
            call_command("checkpoints", *arguments, stdout=out, stderr=StringIO())
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue()
        return 0, out.getvalue()

    def damage(self, part: str) -> str:
        name = next(one for one in self.objects.names() if part in one)
        self.objects.write(name, flipped(self.objects.read(name)))
        return name


@pytest.fixture
def command(db: None, settings: Any, tmp_path: Path) -> Iterator[Command]:
    settings.RESURGE = replace(settings.RESURGE, checkpoints=f"file://{tmp_path}/checkpoints")
    topology = Topology.objects.create(name=TOPOLOGY, spec=spec_of(TOPOLOGY))
    for epoch in (10, 20):
        Checkpoint.objects.create(
            topology=topology, epoch=epoch, generation=5, state=CheckpointState.COMPLETED, stored=True,
            acknowledged=2, total=2, size_bytes=1, started_at=datetime.now(UTC),
        )  # fmt: skip
    with closing(Kept(settings.RESURGE.checkpoints)) as storage:
        yield Command(storage, tmp_path)


@pytest.mark.parametrize("action", ["inspect", "verify"])
def test_whole_checkpoints(command: Command, action: str) -> None:
    code, said = command(action, TOPOLOGY)
    assert code == 0
    assert "3 checkpoints, 0 damaged" in said
    assert "not complete" in said
    code, said = command(action, TOPOLOGY, "--json")
    found = json.loads(said)
    assert [(one["checkpoint"], one["complete"], one["damaged"]) for one in found] == [
        (10, True, False),
        (20, True, False),
        (30, False, False),
    ]
    assert [(one["partition"], one["files"]) for one in found[1]["partitions"]] == [
        ("O3[0]", 2),
        ("O3[1]", 2),
    ]
    assert found[2]["missing"] == ["O3[0]"]


def test_checkpoints_of_an_earlier_version_are_looked_at(command: Command) -> None:
    """After an upgrade, until there are newer ones; they are restored as well."""
    for partition in ("O3-0", "O3-1"):
        (sealed,) = (one for one in command.objects.names() if f"manifests/10/{partition}" in one)
        stored = json.loads(unseal(command.objects.read(sealed), sealed))
        earlier = f"{TOPOLOGY}/manifests/10/{partition}.json"
        command.objects.write(earlier, json.dumps(stored["manifest"]).encode())
        for name in [one for one in command.objects.names() if f"/5/files/{partition}/10." in one]:
            command.objects.write(name.replace("/5/", "/"), command.objects.read(name))
        command.objects.remove(sealed)
        (Path(command.objects.place) / sealed).parent.rmdir()
    code, said = command("verify", TOPOLOGY)
    assert code == 0, said
    assert "3 checkpoints, 0 damaged" in said
    command.damage("manifests/10/O3-1")
    assert command("verify", TOPOLOGY)[0] == 1


def test_a_file_that_two_checkpoints_share_damages_both(command: Command) -> None:
    name = command.damage("files/O3-1/10.")
    assert command("inspect", TOPOLOGY)[0] == 0, "it reads no file"
    code, said = command("verify", TOPOLOGY)
    assert code == 1
    assert "3 checkpoints, 2 damaged" in said
    assert said.count(f"{name} is damaged") == 3, "in the one that is not complete, too"
    assert command.objects.read(name), "it stays where it is"
    assert not [one for one in command.objects.names() if one.endswith(".damaged")]


def test_a_damaged_manifest_and_a_missing_one(command: Command) -> None:
    command.damage("manifests/10/O3-0")
    code, said = command("inspect", TOPOLOGY, "--checkpoint", "10")
    assert code == 1
    assert "10 O3[0]:" in said
    assert "1 checkpoint, 1 damaged" in said
    command.objects.remove(next(one for one in command.objects.names() if "manifests/20/O3-1" in one))
    (Path(command.objects.place) / TOPOLOGY / "5" / "manifests" / "20" / "O3-1").rmdir()
    code, said = command("verify", TOPOLOGY, "--checkpoint", "20")
    assert code == 1
    assert "20: no manifest of O3[1]" in said


def test_a_version_may_have_had_fewer_partitions(command: Command) -> None:
    Checkpoint.objects.filter(epoch=20).update(total=1, acknowledged=1)
    command.objects.remove(next(one for one in command.objects.names() if "manifests/20/O3-1" in one))
    (Path(command.objects.place) / TOPOLOGY / "5" / "manifests" / "20" / "O3-1").rmdir()
    code, said = command("verify", TOPOLOGY)
    assert code == 0
    assert "3 checkpoints, 0 damaged" in said


def test_a_partition_that_no_checkpoint_has(command: Command) -> None:
    """The manifests of the others do not tell of it; how many partitions there were does."""
    for epoch in ("10", "20"):
        command.objects.remove(
            next(one for one in command.objects.names() if f"manifests/{epoch}/O3-0" in one)
        )
        (Path(command.objects.place) / TOPOLOGY / "5" / "manifests" / epoch / "O3-0").rmdir()
    code, said = command("inspect", TOPOLOGY)
    assert code == 1
    assert "3 checkpoints, 2 damaged" in said
    assert "20: no manifest of 1 partition more" in said


def test_a_complete_checkpoint_that_is_gone(command: Command) -> None:
    Checkpoint.objects.filter(epoch=10).update(epoch=9)
    code, said = command("inspect", TOPOLOGY)
    assert code == 1
    assert "9: no manifest of O3[0], O3[1]" in said


def test_what_cannot_be_looked_at(command: Command, settings: Any, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="holds no checkpoint of 'nothing'") as caught:
        command("inspect", "nothing")
    assert caught.value.returncode == 2
    with pytest.raises(CommandError, match="there is no checkpoint 11"):
        command("verify", TOPOLOGY, "--checkpoint", "11")
    (tmp_path / "file").write_text("")
    settings.RESURGE = replace(settings.RESURGE, checkpoints=f"file://{tmp_path}/file")
    with pytest.raises(CommandError, match="Not a directory") as caught:
        command("verify", TOPOLOGY)
    assert caught.value.returncode == 2
