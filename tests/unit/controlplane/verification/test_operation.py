"""A verification that was asked for as an operation, on the files of a run without Spark."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.choices import Channel, OperationKind, OperationState
from controlplane.events.models import Event, Operation
from controlplane.events.operations import operation_succeed
from controlplane.lifecycle.topologies import topology_action
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create, topology_update
from controlplane.verification import operation as operation_module
from controlplane.verification.comparison import QueryResult
from controlplane.verification.operation import outcome
from controlplane.verification.verifying import Verification, topology_verify
from host import environment
from spark_jobs.sinks.parquet import partition_path
from spark_jobs.sources.sample import sample_write
from tests.outputs import DEPLOYED, epochs_present
from tests.unit.controlplane.verification.small_engine import run
from tests.unit.controlplane.verification.test_verifying import pipeline

BY: dict[str, Any] = {"actor": "ada", "reason": "test", "channel": Channel.CLI}
EPOCHS = 12


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    tweets = sample_write(tmp_path_factory.mktemp("input") / "tweets.parquet", tweets=1_000, seed=3)
    spec = pipeline("hashtags", rate=100, path=str(tweets))
    home = tmp_path_factory.mktemp("run")
    run(home, spec, source=tweets, epochs=EPOCHS, tuples=300)
    return home, spec


@pytest.fixture
def home(tmp_path: Path, finished: tuple[Path, dict[str, Any]], db: None, monkeypatch: Any) -> Any:
    ran, spec = finished
    copy = Path(shutil.copytree(ran, tmp_path / "home"))
    topology_create(spec=spec, **BY)
    Topology.objects.update(status="stopped")
    monkeypatch.setattr("os.nice", lambda increment: 0)  # this process goes on with other tests
    settings = environment.read({"RESURGE_HOME": str(copy), "RESURGE_OUTPUTS": str(copy / "outputs")})
    with override_settings(RESURGE=settings):
        yield copy


def ask(topology: str = "hashtags") -> Operation:
    return topology_action(kind=OperationKind.TOPOLOGY_VERIFY, name=topology, **BY)


def left_over(home: Path) -> Path:
    """What a verification that was killed left on disk."""
    file = home / "run" / "verify" / "tables"
    file.parent.mkdir(parents=True)
    file.write_text("of an earlier one")
    return file


def verified() -> Operation:
    operation = ask()
    call_command("verify", operation=str(operation.pk))
    operation.refresh_from_db()
    return operation


def test_exact_outputs_succeed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.events.operations.PACE", 0.0)
    left = left_over(home)
    operation = verified()
    assert not left.exists()
    assert (operation.state, operation.error) == (OperationState.SUCCEEDED, "")
    rows = operation.result.pop("rows")
    assert rows > 100
    assert operation.result == {
        "progress": None, "epoch": EPOCHS, "queries": 15, "exact": 15, "wrong": [], "left_out": [],
    }  # fmt: skip
    told = [
        change["fields"]["result"]["progress"]
        for event in Event.objects.filter(kind="operation.updated").order_by("sequence")
        for change in event.changes
        if change["fields"]["state"] == "running"
    ]
    assert len(told) > 20, "one for each step"
    assert [one["done"] for one in told] == sorted(one["done"] for one in told)
    assert told[-1]["done"] == told[-1]["steps"]


def test_wrong_outputs_fail_with_the_query_and_the_number_of_rows(home: Path) -> None:
    epoch = epochs_present(home / "outputs", "hashtags", "O1", 0)[2]
    directory = partition_path(home / "outputs", "hashtags", DEPLOYED, "O1", 0)
    (directory / f"epoch={epoch}" / "part.parquet").unlink()
    operation = verified()
    assert operation.state == OperationState.FAILED
    assert operation.error.startswith("1 of 15 queries is not exact: O1[0]: ")
    (sentence,) = operation.result["wrong"]
    assert "missing (of" in sentence
    assert (operation.result["queries"], operation.result["exact"]) == (15, 14)


def bounded(topology: str = "hashtags") -> None:
    """As if the same had run with this guarantee."""
    row = Topology.objects.get(name=topology)
    row.spec = {**row.spec, "guarantee": "bounded"}
    row.guarantee = "bounded"
    row.save()


def test_what_a_bounded_guarantee_permits_is_measured_and_succeeds(home: Path) -> None:
    epoch = epochs_present(home / "outputs", "hashtags", "O1", 0)[2]
    file = partition_path(home / "outputs", "hashtags", DEPLOYED, "O1", 0) / f"epoch={epoch}" / "part.parquet"
    lost = pq.read_table(file, partitioning=None)
    file.unlink()
    bounded()
    operation = verified()
    assert (operation.state, operation.error) == (OperationState.SUCCEEDED, "")
    result = operation.result
    assert (result["queries"], result["exact"], result["wrong"]) == (15, 14, [])
    assert result["deviation"] == pytest.approx(lost.num_rows / (result["rows"] + lost.num_rows), abs=1e-6)
    (sentence,) = result["deviating"]
    counted = pc.sum(lost.column("count")).as_py()
    found = re.fullmatch(r"O1\[0\]: (\d+) missing \(of [\d,]+ rows\), counted ([\d,]+) of ([\d,]+)", sentence)
    assert found is not None, sentence
    assert int(found[1]) == lost.num_rows
    assert int(found[3].replace(",", "")) - int(found[2].replace(",", "")) == counted


def test_exact_outputs_deviate_by_nothing(home: Path) -> None:
    bounded()
    operation = verified()
    assert operation.state == OperationState.SUCCEEDED
    assert (operation.result["exact"], operation.result["deviation"]) == (15, 0.0)
    assert (operation.result["wrong"], operation.result["deviating"]) == ([], [])


def test_outputs_that_cannot_be_read_fail_whatever_the_guarantee(home: Path) -> None:
    epoch = epochs_present(home / "outputs", "hashtags", "O1", 0)[2]
    directory = partition_path(home / "outputs", "hashtags", DEPLOYED, "O1", 0)
    (directory / f"epoch={epoch}" / "part.parquet").write_bytes(b"no Parquet")
    bounded()
    operation = verified()
    assert operation.state == OperationState.FAILED
    assert operation.error.startswith("1 of 15 queries is not comparable: O1[0]: the output files cannot be")
    assert (operation.result["exact"], operation.result["deviation"]) == (14, 0.0)


def test_what_cannot_be_verified_says_why(home: Path) -> None:
    shutil.rmtree(home / "topologies")
    operation = verified()
    assert operation.state == OperationState.FAILED
    assert "epochs.log" in operation.error


def test_a_version_that_never_ran_is_not_compared_with_the_outputs_of_another(home: Path) -> None:
    Topology.objects.update(deployed_at=timezone.now())
    assert verified().state == OperationState.SUCCEEDED
    changed = Topology.objects.get().spec
    changed["operators"][0]["params"]["rate"] = 200
    topology_update(name="hashtags", spec=changed, **BY)
    operation = verified()
    assert operation.state == OperationState.FAILED
    assert "version 2 has not been deployed yet" in operation.error
    with pytest.raises(CommandError, match="version 2 has not been deployed yet"):
        call_command("verify", "hashtags")


def test_a_topology_that_is_deployed_again_meanwhile_is_not_judged(home: Path, monkeypatch: Any) -> None:
    compare = topology_verify

    def meanwhile(**given: Any) -> Verification:
        assert given["scratch"].is_dir()
        found = compare(**given)
        Topology.objects.update(deployed_at=timezone.now())
        return found

    monkeypatch.setattr(operation_module, "topology_verify", meanwhile)
    operation = verified()
    assert operation.state == OperationState.FAILED
    assert operation.error == "the topology was deployed again meanwhile: ask again"
    assert not list((home / "run").iterdir()), "what did not fit into memory is removed"


def test_an_operation_that_has_ended_is_left_alone(home: Path) -> None:
    operation = ask()
    operation_succeed(operation=operation, result={"exact": 3})
    call_command("verify", operation=str(operation.pk))
    operation.refresh_from_db()
    assert operation.result == {"exact": 3}


def test_one_at_a_time_and_only_what_was_deployed(topology: Topology) -> None:
    with pytest.raises(Conflict, match="has never been deployed"):
        ask("counts")
    Topology.objects.update(status="failed")
    operation = ask("counts")
    with pytest.raises(Conflict, match="is being verified"):
        ask("counts")
    operation_succeed(operation=operation)
    ask("counts")


def test_many_faults_are_counted() -> None:
    queries = [
        QueryResult(query=f"O{n}[0]", operator=f"O{n}", expected=9, found=7, missing=2) for n in range(30)
    ]
    result, wrong = outcome(_of(queries))
    assert wrong.startswith("30 of 30 queries are not exact: O0[0]: 2 missing (of 9 rows); O1[0]")
    assert (len(result["wrong"]), result["wrong"][-1]) == (21, "and 10 more")


def test_nothing_compared_is_not_exact() -> None:
    query = QueryResult(query="O[0]", operator="O", skipped="it reads from kafka")
    assert outcome(_of([query]))[1] == "no query can be compared: O[0]: it reads from kafka"


def test_what_was_compared_in_part_is_told() -> None:
    query = QueryResult(query="O[0]", operator="O", expected=9, found=9, beyond="windows that end after noon")
    result, wrong = outcome(_of([query]))
    assert (result["exact"], result["left_out"], wrong) == (1, ["O[0]: windows that end after noon"], "")


def _of(queries: list[QueryResult]) -> Verification:
    return Verification(
        topology="hashtags", epoch=3, tuples={}, watermark_us=None, final=False, inputs={}, queries=queries
    )


def test_the_deviation_counts_all_compared_queries_by_their_rows() -> None:
    many = QueryResult(query="O0[0]", operator="O0", expected=90, found=90)
    few = QueryResult(
        query="O1[0]", operator="O1", expected=10, found=12, missing=1, duplicate=2, unexpected=1, different=1
    )
    out = QueryResult(query="O2[0]", operator="O2", skipped="it reads from kafka")
    assert (many.deviation, few.deviation) == (0.0, 0.5)
    result, wrong = outcome(_of([many, few, out]), bounded=True)
    assert (result["deviation"], wrong) == (0.05, "")
    (sentence,) = result["deviating"]
    assert sentence == "O1[0]: 1 missing, 2 duplicate, 1 unexpected, 1 different (of 10 rows)", "no counts"
    assert "deviation" not in outcome(_of([many, few, out]))[0], "where it should be exact, it is wrong"


def test_nothing_compared_has_not_succeeded_whatever_the_guarantee() -> None:
    query = QueryResult(query="O[0]", operator="O", skipped="it reads from kafka")
    assert outcome(_of([query]), bounded=True)[1].startswith("no query can be compared")
