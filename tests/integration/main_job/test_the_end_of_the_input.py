"""The last of the main job: what has been read to its end is complete, and stays complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from controlplane.topologies.validation import pipeline_text
from domain.topology import load_yaml
from harness.stack import Stack
from spark_jobs.sinks.committed import Committed, Span, committed_files, committed_read
from tests.data import shared_data
from tests.integration.main_job.course import (
    EPOCH,
    FIELDS,
    QUERIES,
    RATE,
    SELDOM,
    advanced,
    exact,
    healthy,
    operation_ended,
)

pytestmark = pytest.mark.integration

DIVIDED = {"O0": 3, "O2": 2}
"""Windows by key, and how many partitions they have in the deployment that begins with a savepoint."""
EPOCHS_COMPARED = 12
"""After the savepoint, of each of two deployments."""


def test_a_new_version_goes_on_from_the_checkpoint_that_the_old_one_left(stack: Stack) -> None:
    """It has one query more. The others stay exact over both versions, in the same outputs."""
    healthy(stack)
    outputs = stack.home / "outputs" / "hashtags"
    # What was compared so far was read from these, too.
    stack.wait_for(lambda: len(spans(outputs)) > 3, "spans of several epochs", timeout=90)
    stack.rest.post("topologies/hashtags/undeploy/", {"reason": "a new version"})
    stack.wait_for_status("stopped")
    before = stack.topology()
    assert before["checkpoint_epoch"] == before["committed_epoch"] > 0
    deployed = committed_read(outputs)
    spec = load_yaml(pipeline_text("hashtags"))
    added = {**next(one for one in spec["operators"] if one["name"] == "O0"), "name": "Added", "priority": 2}
    tweets = shared_data("tweets.parquet")
    operators = [*spec["operators"], added]
    stack.deploy("hashtags", input=tweets, rate=RATE, goes_on=True, **{**FIELDS, "operators": operators})

    def runs() -> bool:
        row = stack.topology()
        return bool(row["status"] == "running" and row["queries_available"] == QUERIES + 1)

    stack.wait_for(runs, "all queries of the new version", timeout=120, pause=SELDOM)
    advanced(stack, 5)
    asked = stack.rest.post("topologies/hashtags/verify/", {"reason": "over both versions"})
    ended = operation_ended(stack, asked["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", "")
    result = ended["result"]
    assert (result["queries"], result["exact"]) == (QUERIES, QUERIES)
    assert result["epoch"] > before["committed_epoch"]
    assert [line.partition(":")[0] for line in result["left_out"]] == ["Added[0]"]
    after = committed_read(outputs)
    assert deployed is not None
    assert after is not None
    assert (after.deployed, after.removed) == (deployed.deployed, deployed.removed)
    assert list(committed_files(outputs, "Added", after))
    assert not list((stack.home / "outputs").glob("hashtags.until-*"))


def test_a_deployment_that_begins_with_a_savepoint_gives_the_same_rows(stack: Stack) -> None:
    """Both go on from the same checkpoint, over the same input: what both have committed is equal, although
    the second one has divided the keys of two windows among more partitions."""
    asked = stack.rest.post(
        "topologies/hashtags/savepoints/", {"name": "before-more", "reason": "to come back to"}
    )
    ended = operation_ended(stack, asked["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", "")
    (saved,) = stack.rest.get("savepoints/?state=complete")["results"]
    assert saved["size_bytes"] > 0
    stack.wait_for(
        lambda: stack.topology()["committed_epoch"] > saved["epoch"] + EPOCHS_COMPARED,
        "epochs after it",
        timeout=120,
        pause=SELDOM,
    )
    stack.rest.post("topologies/hashtags/undeploy/", {"reason": "back to the savepoint"})
    stack.wait_for_status("stopped")
    outputs = stack.home / "outputs" / "hashtags"
    first = committed_read(outputs)
    assert first is not None
    operators = [
        {key: value for key, value in one.items() if key != "params"} | {"params": without_origin(one)}
        for one in stack.topology()["spec"]["operators"]
    ]
    for one in operators:
        one["parallelism"] = DIVIDED.get(one["name"], one["parallelism"])
    tweets = shared_data("tweets.parquet")
    fields = {**FIELDS, "operators": operators}
    stack.deploy("hashtags", input=tweets, rate=RATE, savepoint="before-more", **fields)
    stack.wait_for(
        lambda: stack.topology()["committed_epoch"] > saved["epoch"] + EPOCHS_COMPARED,
        "the same epochs",
        timeout=120,
        pause=SELDOM,
    )
    (aside,) = (stack.home / "outputs").glob("hashtags.until-*")
    second = committed_read(outputs)
    assert second is not None
    assert second.deployed > first.deployed
    queries = [query["partition"] for query in stack.rest.listing("topologies/hashtags/queries/")]
    names = sorted({query.partition("[")[0] for query in queries})
    assert len(names) >= QUERIES
    assert len(queries) == len(names) + sum(count - 1 for count in DIVIDED.values())
    compared = [compared_rows(operator, (aside, first), (outputs, second)) for operator in names]
    assert all(compared), "every query has rows after the savepoint"
    asked = stack.rest.post("topologies/hashtags/verify/", {"reason": "what it gave after the savepoint"})
    ended = operation_ended(stack, asked["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", "")
    result = ended["result"]
    left_out = {line.partition("[")[0] for line in result["left_out"]}
    assert left_out >= DIVIDED.keys(), "they were changed on the way"
    assert result["queries"] == result["exact"] == len(names) - len(left_out) > 0
    assert result["rows"] > 0
    for operator, count in DIVIDED.items():
        given = set(pc.unique(rows_of(outputs, second, operator).column("partition")).to_pylist())
        assert given == set(range(count)), f"every partition of {operator} gave rows"


Outputs = tuple[Path, Committed]


def without_origin(operator: dict[str, Any]) -> dict[str, Any]:
    """The parameters as the author wrote them."""
    return {name: value for name, value in operator["params"].items() if name != "origin"}


def compared_rows(operator: str, one: Outputs, other: Outputs) -> int:
    """How many rows of an operator both deployments have. Windows that both have closed are compared; those
    of the second begin with the first one after the savepoint."""
    found = [rows_of(*outputs, operator) for outputs in (one, other)]
    ends = [pc.min_max(rows.column("window_end")).as_py() for rows in found]
    since, until = ends[1]["min"], min(each["max"] for each in ends)
    both = [sorted_rows(rows, since, until) for rows in found]
    assert both[0].equals(both[1]), operator
    return int(both[0].num_rows)


def sorted_rows(rows: pa.Table, since: int, until: int) -> pa.Table:
    """Those of windows that end in this time, whichever partition they are of."""
    ends = rows.column("window_end")
    within = rows.filter(pc.and_(pc.greater_equal(ends, since), pc.less_equal(ends, until)))
    names = [name for name in within.column_names if name != "partition"]
    return within.select(names).sort_by([(name, "ascending") for name in names]).combine_chunks()


def rows_of(directory: Path, committed: Committed, operator: str) -> pa.Table:
    """The committed rows of one operator, with their partitions. There are millions of them."""
    tables: list[pa.Table] = []
    for file in committed_files(directory, operator, committed):
        rows = pq.ParquetFile(file).read()
        number = int(next(part for part in file.parts if part.startswith("partition="))[10:])
        tables.append(rows.append_column("partition", pa.repeat(number, rows.num_rows)))
    return pa.concat_tables(tables)


def test_a_forced_checkpoint_and_the_end_of_the_input(stack: Stack) -> None:
    """An operator asks for a checkpoint; undeploying and deploying again keeps the earlier outputs aside."""
    before = stack.topology()["checkpoint_epoch"]
    asked = stack.rest.post("topologies/hashtags/checkpoint/", {"reason": "an operator's"})
    ended = operation_ended(stack, asked["id"])
    assert (ended["state"], ended["error"]) == ("succeeded", "")
    stack.wait_for(lambda: stack.topology()["checkpoint_epoch"] > before, "the checkpoint", timeout=30)
    # There is one every few seconds anyway: this one says who asked for it.
    taken = stack.rest.get("topologies/hashtags/checkpoints/")["results"]
    assert [row["requested_by"] for row in taken if row["requested_by"]] == [ended["requested_by"]]
    stack.rest.post("topologies/hashtags/undeploy/", {"reason": "test"})
    stack.wait_for_status("stopped")
    tweets = shared_data("tweets.parquet")
    stack.deploy("hashtags", input=tweets, rate=5_000, limit=50_000, epoch_interval=EPOCH)
    stack.wait_for_status("completed", timeout=180)
    exact(stack)
    assert list((stack.home / "outputs").glob("hashtags.until-*"))


def spans(outputs: Path) -> list[Span]:
    committed = committed_read(outputs)
    return list(committed.spans) if committed is not None else []
