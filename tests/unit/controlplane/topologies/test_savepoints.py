"""Savepoints: copied from a checkpoint in storage, kept until deleted, and what a deployment begins with."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.errors import Conflict, Invalid
from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.loading import deploy_generations, deployment_at
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.plans import plan_adopt
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle import saving
from controlplane.lifecycle.nodes import nodes_lost
from controlplane.lifecycle.savepoints import savepoint_delete, savepoint_failed, savepoint_request
from controlplane.lifecycle.saving import operation_save, savepoints_clear
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.topologies.choices import Start, TopologyStatus
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_delete
from domain.execution.job import EpochPlan
from domain.messages import DeployedSpec
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.savepoints import DIRECTORY
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.store import EMPTY, StateStore
from tests.unit.controlplane.specs import BY
from tests.unit.controlplane.topologies.test_continuing import NEW, ran, updated
from tests.unit.spark_jobs.state.conformance.states import grown, upload
from workers.reconciliation import plan_of, topology_reconcile

FIRST = Deployment("counts", 1)
REASON = {"reason": "before version 2"}


class Kept:
    """What drivers and agents have stored of `counts`: checkpoints 10 and 20 of its first deployment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = f"file://{root}/checkpoints"

    def checkpoint(
        self, topology: Topology, epoch: int, *, recorded: bool = True, renewed: list[str] | None = None
    ) -> None:
        spec = topology.deployed_spec
        assert spec is not None
        with closing(CheckpointStorage(self.url, force=False)) as storage:
            for partition in graph_of(spec).partitions:
                store = StateStore(self.root / f"{epoch}-{partition}")
                upload(
                    storage,
                    store,
                    grown(store, EMPTY, epoch),
                    topology="counts",
                    partition=partition,
                    deployed=1,
                )
            if recorded:
                plan = EpochPlan(
                    epoch=epoch, slices={"Source": ({"tuple": 0}, {"tuple": 9})}, watermark=1,
                    previous_watermark=0, at=0.0,
                )  # fmt: skip
                storage.store_record(
                    CheckpointRecord(
                        topology="counts", deployed=1, checkpoint=epoch, version=1, spec=spec,
                        origin_us=7, plan=plan, renewed=renewed,
                    )
                )  # fmt: skip

    @property
    def archives(self) -> set[str]:
        with closing(open_storage(self.url, force=False)) as storage:
            return {name.removesuffix(".tar") for name in storage.entries(DIRECTORY)}


@pytest.fixture
def kept(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, topology: Topology) -> Kept:
    """`counts` has run, with two checkpoints, and is undeployed."""
    monkeypatch.setattr(saving, "PAUSE", 0.0)
    monkeypatch.setattr("os.nice", lambda _: 0)
    made = Kept(tmp_path)
    settings.RESURGE = replace(settings.RESURGE, checkpoints=made.url, home=tmp_path, force=False)
    after = ran()
    for epoch in (10, 20):
        made.checkpoint(after, epoch, renewed=["O1"])
    return made


def saved(name: str = "before-v2", **given: Any) -> Savepoint:
    operation = savepoint_request(topology="counts", name=name, **given, **BY)
    operation_save(str(operation.pk))
    operation.refresh_from_db()
    assert operation.state == "succeeded", operation.error
    return Savepoint.objects.get(name=name)


def failed(name: str = "before-v2", **given: Any) -> str:
    """Why a savepoint is not made."""
    operation = savepoint_request(topology="counts", name=name, **given, **BY)
    operation_save(str(operation.pk))
    operation.refresh_from_db()
    savepoint = Savepoint.objects.get(name=name)
    assert (operation.state, savepoint.state, savepoint.cause) == ("failed", "failed", operation.error)
    return str(operation.error)


def begun(name: str = "before-v2") -> tuple[Topology, RecoveryPlan]:
    topology_deploy(name="counts", start=Start.SAVEPOINT, savepoint=name, **BY)
    return Topology.objects.get(), RecoveryPlan.objects.order_by("-generation")[0]


def test_the_newest_checkpoint_is_copied(kept: Kept) -> None:
    savepoint = saved()
    assert (savepoint.state, savepoint.topology, savepoint.epoch) == ("complete", "counts", 20)
    assert (savepoint.version, savepoint.spec["name"], savepoint.requested_by) == (1, "counts", "ada")
    assert {savepoint.key} == kept.archives
    operation = Operation.objects.get(kind="topology.savepoint")
    assert operation.result == {"progress": None, "checkpoint": 20, "size_bytes": savepoint.size_bytes}
    assert not (kept.root / "run" / "savepoint").exists()


def test_an_older_one_is_copied_on_request(kept: Kept) -> None:
    assert saved(checkpoint=10).epoch == 10
    with pytest.raises(Conflict, match="checkpoint 15 is not in storage; those that are: 10, 20"):
        savepoint_request(topology="counts", name="other", checkpoint=15, **BY)


def test_it_stays_when_the_topology_is_gone(kept: Kept) -> None:
    saved()
    Topology.objects.all().delete()
    with closing(CheckpointStorage(kept.url)) as storage:
        storage.delete_topology("counts")
    assert len(kept.archives) == 1
    assert Savepoint.objects.get().state == "complete"


def test_a_checkpoint_that_leaves_meanwhile_is_tried_again(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention had it deleted; by the next try a newer one is complete."""
    with closing(CheckpointStorage(kept.url)) as storage:
        storage.delete_checkpoint(FIRST, 20)
    tries = []

    def wait(seconds: float) -> None:
        tries.append(seconds)
        topology = Topology.objects.get()
        newest = Checkpoint.objects.get(epoch=20)
        newest.pk, newest.epoch = None, 30
        newest.save()
        kept.checkpoint(topology, 30)

    monkeypatch.setattr("controlplane.lifecycle.saving.time.sleep", wait)
    assert saved().epoch == 30
    assert len(tries) == 1


def test_a_checkpoint_without_a_record_cannot_be_copied(kept: Kept) -> None:
    with closing(CheckpointStorage(kept.url)) as storage:
        storage.delete_checkpoint(FIRST, 10)
    topology = Topology.objects.get()
    kept.checkpoint(topology, 10, recorded=False)
    assert "records/10.json is missing" in failed(checkpoint=10)
    assert kept.archives == set()
    assert saved().epoch == 20, "the name of one that failed can be used again"
    assert set(Savepoint.objects.values_list("state", flat=True)) == {"complete", "deleted"}


def test_a_second_attempt_takes_the_place_of_the_first(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process was killed once the archive was stored."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    operation = savepoint_request(topology="counts", name="before-v2", **BY)
    with monkeypatch.context() as patch:
        patch.setattr(saving, "_complete", killed)
        with pytest.raises(KeyboardInterrupt):
            operation_save(str(operation.pk))
    first = kept.archives
    operation_save(str(operation.pk))
    savepoint = Savepoint.objects.get()
    assert kept.archives == {savepoint.key} != first


def test_a_process_that_ended_fails_it(kept: Kept) -> None:
    operation = savepoint_request(topology="counts", name="before-v2", **BY)
    savepoint_failed(operation=operation, error="not saved: its process ended")
    savepoint = Savepoint.objects.get()
    assert (savepoint.state, savepoint.cause) == ("failed", "not saved: its process ended")
    operation_save(str(operation.pk))
    assert kept.archives == set()


def test_one_that_is_complete_is_not_given_up(kept: Kept) -> None:
    """Its process ended between the outcome and the launcher's look."""
    saved()
    savepoint_failed(operation=Operation.objects.get(kind="topology.savepoint"), error="its process ended")
    assert Savepoint.objects.get().state == "complete"


def test_one_that_was_given_up_does_not_become_complete(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process took too long, and ended the copy all the same."""
    operation = savepoint_request(topology="counts", name="before-v2", **BY)
    copied = saving._copied

    def late(*given: Any) -> Any:
        done = copied(*given)
        savepoint_failed(operation=Operation.objects.get(pk=operation.pk), error="not saved: too long")
        return done

    monkeypatch.setattr(saving, "_copied", late)
    operation_save(str(operation.pk))
    operation.refresh_from_db()
    assert (operation.state, Savepoint.objects.get().state) == ("failed", "failed")


@pytest.mark.parametrize("name", ["", "Before", "a/b", "../a", "a b", "a" * 64, "-a", "é"])
def test_bad_names_are_refused(kept: Kept, name: str) -> None:
    with pytest.raises(Invalid):
        savepoint_request(topology="counts", name=name, **BY)
    assert not Savepoint.objects.exists()
    assert not Operation.objects.filter(kind="topology.savepoint").exists()


def test_a_name_is_used_once(kept: Kept) -> None:
    saved()
    with pytest.raises(Conflict, match="there is a savepoint 'before-v2' already"):
        savepoint_request(topology="counts", name="before-v2", **BY)


def test_without_a_checkpoint_there_is_nothing_to_copy(topology: Topology) -> None:
    with pytest.raises(Conflict, match="no checkpoint of topology 'counts' is in storage"):
        savepoint_request(topology="counts", name="before-v2", **BY)


# ---- deploying with one --------------------------------------------------------------------------


def test_a_deployment_of_its_own_begins_with_it(kept: Kept) -> None:
    savepoint = saved(checkpoint=10)
    topology, plan = begun()
    assert (plan.kind, plan.from_savepoint, plan.rollback, plan.checkpoint) == ("restore", True, True, 10)
    assert plan.restore == sorted(plan.assignment)
    assert plan.stateless == []
    assert deploy_generations()[topology.pk] == plan.generation
    assert deployment_at(topology.pk, plan.generation) == plan.generation
    assert plan_of(plan).deployed == plan.generation
    assert (topology.committed_epoch, topology.checkpoint_epoch) == (10, 10)
    assert topology.continues == {
        "checkpoint": 10,
        "stateless": [],
        "divided": [],
        "savepoint": savepoint.key,
    }
    assert topology.computation == topology.version
    assert topology.renewed == ["O1"], "as when the checkpoint was recorded"
    assert not Checkpoint.objects.exists(), "those of the earlier deployment"
    operation = Operation.objects.filter(kind="topology.deploy").latest("created_at")
    assert operation.parameters["savepoint"] == "before-v2"


def test_of_a_record_that_does_not_say_what_was_renewed_nothing_can_be_recomputed(kept: Kept) -> None:
    """Versions before this one did not note it."""
    savepoint = saved()
    savepoint.renewed = None
    savepoint.save()
    topology, _ = begun()
    assert set(topology.renewed) == {"Source", "Parser", "O0", "O1"}


def test_what_the_version_computes_otherwise_is_renewed_too(kept: Kept) -> None:
    saved()
    updated(**NEW)
    topology, _ = begun()
    assert topology.renewed == ["O1", "O2"]


def test_event_time_counts_as_it_did(kept: Kept) -> None:
    savepoint = saved()
    topology, _ = begun()
    origin = savepoint.spec["operators"][0]["params"]["origin"]
    assert topology.spec["operators"][0]["params"]["origin"] == origin


def test_drivers_are_told_which_one(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    savepoint = saved()
    begun()
    told: list[Any] = []
    zookeeper: Any = SimpleNamespace(get=lambda *_: None, put=lambda path, value: told.append(value))
    monkeypatch.setattr("workers.reconciliation.plan_put", lambda coordination, name: [])
    topology_reconcile(zookeeper, "counts")
    ((key, renewed),) = [(one.savepoint, one.renewed) for one in told if isinstance(one, DeployedSpec)]
    assert (key, renewed) == (savepoint.key, ["O1"])


def test_a_new_operator_begins_without_state(kept: Kept) -> None:
    saved()
    updated(**NEW)
    _, plan = begun()
    assert plan.stateless == ["O2[0]", "O2[1]"]


def test_a_version_that_does_not_fit_is_refused_by_field(kept: Kept) -> None:
    saved()
    updated(name="O0", params={"size_s": 12, "slide_s": 6})
    with pytest.raises(Invalid, match="state of operator 'O0' does not fit"):
        begun()
    assert Checkpoint.objects.filter(stored=True).count() == 2, "nothing is lost"


def test_one_that_is_not_complete_is_refused(kept: Kept) -> None:
    savepoint_request(topology="counts", name="before-v2", **BY)
    with pytest.raises(Conflict, match="savepoint 'before-v2' is being made"):
        begun()


def test_a_node_lost_before_the_driver_begins_is_recovered_from_the_savepoint(kept: Kept) -> None:
    saved(checkpoint=10)
    updated(**NEW)
    _, plan = begun()
    nodes_lost(evidence={plan.assignment["O0[0]"]: "silent"}, at=timezone.now())
    incident = Incident.objects.get()
    incident_advance(number=incident.number, events=[])
    newest = RecoveryPlan.objects.order_by("-generation")[0]
    assert newest.incident == incident
    assert (newest.checkpoint, newest.stateless) == (10, ["O2[0]", "O2[1]"])
    assert plan_of(newest).deployed == plan.generation


def test_going_on_later_is_in_the_deployment_that_began_with_it(kept: Kept) -> None:
    saved(checkpoint=10)
    topology, plan = begun()
    topology.status, topology.desired = TopologyStatus.STOPPED, "stopped"
    topology.save()
    Checkpoint.objects.create(
        topology=topology, epoch=40, generation=plan.generation, stored=True, started_at=topology.deployed_at
    )
    topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    after, later = Topology.objects.get(), RecoveryPlan.objects.order_by("-generation")[0]
    assert after.continues == {"checkpoint": 40, "stateless": [], "divided": []}
    assert not later.from_savepoint
    assert plan_of(later).deployed == plan.generation


def test_a_database_that_lost_the_plan_learns_it_again(kept: Kept) -> None:
    saved(checkpoint=10)
    topology, plan = begun()
    told = plan_of(plan)
    RecoveryPlan.objects.filter(pk=plan.pk).delete()
    Topology.objects.update(generation=plan.generation - 1)
    plan_adopt(topology="counts", plan=told)
    assert deployment_at(topology.pk, plan.generation) == plan.generation


# ---- deleting, and moving as a file --------------------------------------------------------------


def test_a_deleted_one_is_gone_at_once_and_its_archive_soon(kept: Kept) -> None:
    saved()
    savepoint_delete(name="before-v2", **BY)
    assert saved().name == "before-v2", "its name is free"
    assert len(kept.archives) == 2
    savepoints_clear()
    assert kept.archives == {Savepoint.objects.get().key}
    entry = AuditEntry.objects.get(action="savepoint.delete")
    assert (entry.target, entry.before["checkpoint"]) == ("before-v2", 20)


def test_one_in_use_is_not_deleted(kept: Kept) -> None:
    savepoint = saved()
    begun()
    for status in (TopologyStatus.DEPLOYING, TopologyStatus.RECOVERING, TopologyStatus.FAILED):
        Topology.objects.update(status=status)
        with pytest.raises(Conflict, match="topology 'counts' is beginning with savepoint 'before-v2'"):
            savepoint_delete(name="before-v2", **BY)
    Topology.objects.update(status=TopologyStatus.RUNNING, committed_epoch=savepoint.epoch + 1)
    savepoint_delete(name="before-v2", **BY)


def test_one_that_is_being_made_is_not_deleted(kept: Kept) -> None:
    savepoint_request(topology="counts", name="before-v2", **BY)
    with pytest.raises(Conflict, match="is being made"):
        savepoint_delete(name="before-v2", **BY)


def test_what_it_is_copied_from_stays_until_it_is_made(kept: Kept) -> None:
    operation = savepoint_request(topology="counts", name="before-v2", **BY)
    words = (
        "savepoint 'before-v2' of topology 'counts' is being made from a checkpoint .* wait for the outcome"
    )
    with pytest.raises(Conflict, match=words):
        topology_deploy(name="counts", **BY)
    with pytest.raises(Conflict, match=words):
        topology_delete(name="counts", **BY)
    topology_deploy(name="counts", start=Start.CHECKPOINT, **BY)
    operation_save(str(operation.pk))
    assert Savepoint.objects.get().state == "complete"


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("checkpoints", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_it_is_exported_and_imported_as_one_file(kept: Kept, tmp_path: Path) -> None:
    first = saved()
    file = tmp_path / "a.tar"
    assert "a.tar: checkpoint 20 of counts, " in command(
        "export", "--savepoint", "before-v2", "--file", str(file)
    )
    said = command("import", "--savepoint", "moved", "--file", str(file), "--reason", "from the other site")
    assert "savepoint moved: checkpoint 20 of counts, " in said
    second = Savepoint.objects.get(name="moved")
    assert (second.imported, second.spec, second.epoch) == (True, first.spec, first.epoch)
    assert kept.archives == {first.key, second.key}
    assert AuditEntry.objects.get(action="savepoint.import").reason == "from the other site"


def test_what_becomes_of_the_file_changes_nothing(kept: Kept, tmp_path: Path) -> None:
    """A directory keeps files by hard link."""
    file = tmp_path / "a.tar"
    command("export", "counts", "--file", str(file))
    content = file.read_bytes()
    command("import", "--savepoint", "moved", "--file", str(file))
    file.write_bytes(b"something else")
    command("export", "--savepoint", "moved", "--file", str(tmp_path / "b.tar"))
    assert (tmp_path / "b.tar").read_bytes() == content
    assert not list((tmp_path / "run").iterdir())


def test_a_checkpoint_is_exported_without_a_savepoint(kept: Kept, tmp_path: Path) -> None:
    command("export", "counts", "--checkpoint", "10", "--file", str(tmp_path / "a.tar"))
    command("import", "--savepoint", "ten", "--file", str(tmp_path / "a.tar"))
    assert Savepoint.objects.get().epoch == 10


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("export", "counts"), "give --file, and a topology or --savepoint"),
        (("export", "counts", "--savepoint", "x", "--file", "{new}"), "give --file, and a topology or"),
        (("export", "counts", "--file", "{there}"), "is there already"),
        (
            ("export", "counts", "--file", "{new}", "--checkpoint", "11"),
            "checkpoint 11 of topology 'counts' is not in",
        ),
        (("export", "none", "--file", "{new}"), "there is no topology"),
        (("export", "--savepoint", "none", "--file", "{new}"), "there is no savepoint 'none'"),
        (("import", "--file", "{there}"), "give --file, and with --savepoint the name"),
        (("import", "--file", "{there}", "--savepoint", "x"), "is no archive of a savepoint"),
        (("import", "--file", "{new}", "--savepoint", "x"), "No such file"),
        (("inspect",), "name a topology"),
    ],
)
def test_commands_that_cannot_be_carried_out(
    kept: Kept, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    there, new = tmp_path / "there.tar", tmp_path / "new.tar"
    there.write_text("hello")
    given = [one.format(there=there, new=new) for one in arguments]
    with pytest.raises(CommandError, match=told) as error:
        command(*given)
    assert error.value.returncode == 2
    assert sorted(one.name for one in tmp_path.glob("*.tar")) == ["there.tar"]
    assert not list(tmp_path.glob(".*.part"))
    assert not Savepoint.objects.exists()


def test_a_name_that_is_taken_keeps_no_archive(kept: Kept, tmp_path: Path) -> None:
    saved()
    command("export", "--savepoint", "before-v2", "--file", str(tmp_path / "a.tar"))
    with pytest.raises(CommandError, match="there is a savepoint 'before-v2' already"):
        command("import", "--savepoint", "before-v2", "--file", str(tmp_path / "a.tar"))
    assert len(kept.archives) == 1


# ---- REST ----------------------------------------------------------------------------------------


def test_it_is_asked_for_listed_and_deleted_over_rest(kept: Kept, operator: APIClient) -> None:
    asked = operator.post(
        "/api/v1/topologies/counts/savepoints/", {"name": "before-v2", **REASON}, format="json"
    )
    assert asked.status_code == 202, asked.content
    operation_save(asked.json()["id"])
    (row,) = operator.get("/api/v1/savepoints/?topology=counts&state=complete").json()["results"]
    assert (row["name"], row["epoch"], row["state"]) == ("before-v2", 20, "complete")
    assert operator.get("/api/v1/savepoints/before-v2/").json() == row
    gone = operator.delete("/api/v1/savepoints/before-v2/?reason=done")
    assert gone.status_code == 204, gone.content
    assert operator.get("/api/v1/savepoints/before-v2/").status_code == 404
    assert operator.get("/api/v1/savepoints/").json()["results"] == []


def test_the_outlook_says_what_it_would_begin_with(kept: Kept, operator: APIClient) -> None:
    saved(checkpoint=10)
    path = "/api/v1/topologies/counts/continuation/"
    told = operator.get(f"{path}?savepoint=before-v2").json()
    assert (told["possible"], told["checkpoint"], told["committed_epoch"]) == (True, 10, 10)
    updated(name="O0", params={"size_s": 12, "slide_s": 6})
    told = operator.get(f"{path}?savepoint=before-v2").json()
    assert not told["possible"]
    assert "cannot begin with savepoint 'before-v2'" in told["refusal"]
    assert operator.get(f"{path}?savepoint=none").status_code == 404


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"start": "savepoint"}, "name the savepoint that it begins with"),
        ({"start": "checkpoint", "savepoint": "a"}, "goes with start: savepoint"),
        ({"start": "savepoint", "savepoint": "../a"}, "required pattern"),
    ],
)
def test_bad_requests(kept: Kept, operator: APIClient, body: dict[str, str], told: str) -> None:
    answer = operator.post("/api/v1/topologies/counts/deploy/", {**body, **REASON}, format="json")
    assert answer.status_code == 400
    assert told in answer.content.decode()
    assert not RecoveryPlan.objects.filter(from_savepoint=True).exists()
