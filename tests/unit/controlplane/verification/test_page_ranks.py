"""The pipeline `page-ranks`, whose ranks go round a cycle, from its file to its verified outputs, and against
the solution of the equations."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.topologies.validation import pipeline_read
from controlplane.verification.graph_operators import page_ranks
from domain.topology import Topology
from tests.data import shared_data
from tests.outputs import DEPLOYED, epochs_present
from tests.unit.controlplane.verification.small_engine import ORIGIN_US, run_as_planned
from tests.unit.controlplane.verification.test_verifying import faults, verify

SECOND = 1_000_000
COLUMNS = pa.schema([("window_end", pa.int64()), ("key", pa.string()), ("rank", pa.int64())])
PATHS = ([1, 2, 3, 1, 2, 4, 1, 3], [7, 8, 7, 9, 1, 7, 8, 9])
"""Pages that visitors of each of two servers see, again and again."""


def ranked(params: dict[str, Any] | None = None, **source: Any) -> dict[str, Any]:
    """The pipeline with these parameters of the source, and of the operator that ranks."""
    spec = pipeline_read("page-ranks")
    operators = {operator["name"]: operator for operator in spec["operators"]}
    operators["Source"]["params"] |= source
    operators["Shares"]["params"] |= params or {}
    return spec


def views(path: Path, *, rows: int) -> Path:
    seen = [(PATHS[n % 2][(n // 2) % 8], n % 2) for n in range(rows)]
    columns = {
        "page_id": [f"{page:04d}" for page, _ in seen],
        "server_id": [f"s{server}" for _, server in seen],
    }
    pq.write_table(pa.table(columns), path)
    return path


def outputs(home: Path) -> pa.Table:
    rows = pq.read_table(home / "outputs" / "page-ranks" / f"deployed={DEPLOYED}" / "Ranks")
    return rows.select(["window_end", "key", "rank"]).cast(COLUMNS)


def ran(home: Path, spec: dict[str, Any], epochs: int) -> Topology:
    topology = run_as_planned(home, spec, epochs=epochs)
    verification = verify(home, spec)
    assert (faults(verification), verification.clean, verification.final) == ({}, True, True)
    return topology


def test_ranks_go_round_and_are_those_of_the_equations(tmp_path: Path) -> None:
    spec = ranked(
        {"size_s": 20}, path=str(views(tmp_path / "views.parquet", rows=1_600)), rate=16, limit=1_600
    )
    topology = ran(tmp_path, spec, epochs=150)
    assert topology.components[0].operators == ("Shares",)
    rows = outputs(tmp_path).to_pylist()
    ends = sorted({row["window_end"] for row in rows})
    first = ORIGIN_US // (20 * SECOND) * 20 * SECOND + 20 * SECOND
    assert ends == [first + n * 20 * SECOND for n in range(5)]
    found = {row["key"]: row["rank"] / 1e6 for row in rows if row["window_end"] == ends[-1]}
    # What was seen until then: tuple n comes at n / 16 seconds.
    until = round((ends[-1] - ORIGIN_US) / SECOND * 16)
    weights: dict[tuple[int, int], int] = {}
    for server, path in enumerate(PATHS):
        pages = [path[n % 8] for n in range((until + 1 - server) // 2)]
        for step in pairwise(pages):
            weights[step] = weights.get(step, 0) + 1
    names = sorted({page for path in PATHS for page in path})
    matrix = np.zeros((len(names), len(names)))
    for (one, other), weight in weights.items():
        leaving = sum(count for (page, _), count in weights.items() if page == one)
        matrix[names.index(other), names.index(one)] = weight / leaving
    solved = np.linalg.solve(np.eye(len(names)) - 0.85 * matrix, np.full(len(names), 0.15))
    assert found == pytest.approx(
        {f"{name:04d}": rank for name, rank in zip(names, solved, strict=True)}, abs=2e-3
    )


@pytest.mark.parametrize(
    ("params", "source"),
    [
        ({"size_s": 3, "rounds": 10}, {"rate": 16}),  # windows wait for one another
        ({"size_s": 7, "rounds": 1}, {"rate": 25}),
        ({"size_s": 1, "rounds": 3}, {"rate": 5}),
    ],
)
def test_it_does_not_matter_when_windows_are_ranked(
    tmp_path: Path, params: dict[str, Any], source: dict[str, Any]
) -> None:
    spec = ranked(params, path=str(views(tmp_path / "views.parquet", rows=400)), limit=400, **source)
    ran(tmp_path, spec, epochs=400)
    assert outputs(tmp_path).num_rows > 7


@pytest.mark.parametrize("epochs", [5, 40, 73])
def test_before_the_input_has_ended_the_windows_that_were_given_are_compared(
    tmp_path: Path, epochs: int
) -> None:
    path = views(tmp_path / "views.parquet", rows=1_600)
    spec = ranked({"size_s": 12}, path=str(path), rate=16, limit=1_600)
    topology = run_as_planned(tmp_path, spec, epochs=epochs)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.final) == ({}, False)
    (ranks,) = verification.queries
    present = epochs_present(tmp_path / "outputs", topology.name, "Ranks", 0)
    assert (ranks.expected > 0) == bool(present) == (epochs > 5)
    assert ("given yet" in ranks.skipped) is not bool(present), "nothing was compared, so nothing is exact"
    if present:
        assert "windows that end after 2" in ranks.beyond, "what is lost there cannot be told"
        part = tmp_path / "outputs" / "page-ranks" / f"deployed={DEPLOYED}" / "Ranks" / "partition=0"
        (part / f"epoch={present[0]}" / "part.parquet").unlink()
        assert not verify(tmp_path, spec).clean


def test_a_wrong_rank_is_found(tmp_path: Path) -> None:
    spec = ranked({"size_s": 10}, path=str(views(tmp_path / "views.parquet", rows=400)), rate=16, limit=400)
    topology = ran(tmp_path, spec, epochs=100)
    root = tmp_path / "outputs" / "page-ranks" / f"deployed={DEPLOYED}" / "Ranks" / "partition=0"
    last = max(epochs_present(tmp_path / "outputs", topology.name, "Ranks", 0))
    file = root / f"epoch={last}" / "part.parquet"
    rows = pq.read_table(file).to_pylist()
    rows[0]["rank"] += 1
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    assert not verify(tmp_path, spec).clean


def test_ranks_of_real_clicks(tmp_path: Path) -> None:
    clicks = pq.read_table(shared_data("page_clicks.parquet"), columns=["page_id", "server_id"])
    pq.write_table(clicks.slice(0, 20_000), tmp_path / "clicks.parquet")
    spec = ranked({"size_s": 6, "rounds": 4}, path=str(tmp_path / "clicks.parquet"), rate=1_000, limit=20_000)
    ran(tmp_path, spec, epochs=80)
    rows = outputs(tmp_path)
    assert len(set(rows.column("window_end").to_pylist())) == 4
    assert len(set(rows.column("key").to_pylist())) > 1_000


def test_a_page_that_is_visited_from_two_ranks_higher() -> None:
    steps = [(1, "a", "c"), (2, "b", "c"), (3, "c", "d"), (3, "c", "e"), (12, "c", "e")]
    found = page_ranks(steps, size=10, rounds=5, last=20)
    c = 150_000 + 2 * 127_500
    assert found[:3] == [(10, "c", c), (10, "d", 150_000 + 17 * c // 40), (10, "e", 150_000 + 17 * c // 40)]
    assert found[3:] == [(20, "c", c), (20, "d", 150_000 + 17 * c // 60), (20, "e", 150_000 + 34 * c // 60)]
