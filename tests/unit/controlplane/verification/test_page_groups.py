"""The pipeline `page-groups`, whose labels go round a cycle, from its file to its verified outputs, and
against components that rustworkx finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rustworkx as rx

from controlplane.topologies.validation import pipeline_read
from controlplane.verification.graph_operators import component_labels
from tests.data import shared_data
from tests.outputs import DEPLOYED, epochs_present
from tests.unit.controlplane.verification.small_engine import run_as_planned
from tests.unit.controlplane.verification.test_verifying import faults, verify


def page_groups(**source: Any) -> dict[str, Any]:
    spec = pipeline_read("page-groups")
    spec["operators"][0]["params"] |= source
    return spec


def chains(path: Path, *, rows: int = 600) -> Path:
    """Views on two servers, whose visitors stay among pages of their own. They see them from the last to the
    first, so that labels go a long way."""
    pages = {0: range(40, 0, -1), 1: range(130, 100, -1)}
    views = [(pages[n % 2][(n // 2) % len(pages[n % 2])], n % 2) for n in range(rows)]
    columns = {
        "page_id": [f"{page:04d}" for page, _ in views],
        "server_id": [f"s{server}" for _, server in views],
    }
    pq.write_table(pa.table(columns), path)
    return path


def groups(home: Path) -> dict[str, str]:
    table = pq.read_table(home / "outputs" / "page-groups" / f"deployed={DEPLOYED}" / "Pages")
    return dict(zip(table["key"].to_pylist(), table["label"].to_pylist(), strict=True))


def test_labels_go_round_until_the_groups_are_found(tmp_path: Path) -> None:
    spec = page_groups(path=str(chains(tmp_path / "views.parquet")), rate=100, limit=600)
    topology = run_as_planned(tmp_path, spec, epochs=120)
    assert topology.components[0].operators == ("Groups",)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean, verification.final) == ({}, True, True)
    found = groups(tmp_path)
    assert set(found.values()) == {"0001", "0101"}
    assert (found["0040"], found["0130"], len(found)) == ("0001", "0101", 70)
    assert verification.epoch > 6 + 15, "labels did not go round"


def test_nothing_is_expected_before_the_input_has_ended(tmp_path: Path) -> None:
    spec = page_groups(path=str(chains(tmp_path / "views.parquet")), rate=100, limit=600)
    run_as_planned(tmp_path, spec, epochs=5)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.final) == ({}, False)


def test_a_wrong_group_is_found(tmp_path: Path) -> None:
    spec = page_groups(path=str(chains(tmp_path / "views.parquet")), rate=100, limit=600)
    topology = run_as_planned(tmp_path, spec, epochs=120)
    root = tmp_path / "outputs" / "page-groups" / f"deployed={DEPLOYED}" / "Pages" / "partition=0"
    last = max(epochs_present(tmp_path / "outputs", topology.name, "Pages", 0))
    file = root / f"epoch={last}" / "part.parquet"
    rows = pq.read_table(file).to_pylist()
    rows[0]["label"] = "0002"
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    verification = verify(tmp_path, spec)
    assert not verification.clean


@pytest.mark.parametrize("limit", [20_000])
def test_groups_of_real_clicks(tmp_path: Path, limit: int) -> None:
    clicks = pq.read_table(shared_data("page_clicks.parquet"), columns=["page_id", "server_id"])
    pq.write_table(clicks.slice(0, limit), tmp_path / "clicks.parquet")
    spec = page_groups(path=str(tmp_path / "clicks.parquet"), rate=5_000, limit=limit)
    run_as_planned(tmp_path, spec, epochs=60)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    assert len(groups(tmp_path)) > 1_000


def test_labels_of_components_are_their_least_names() -> None:
    edges = [("d", "b"), ("c", "e"), ("b", "a"), ("f", "e")]
    graph: rx.PyGraph = rx.PyGraph()
    names = "abcdef"
    graph.add_nodes_from(names)
    graph.add_edges_from([(names.index(one), names.index(other), None) for one, other in edges])
    expected = {
        names[node]: min(names[other] for other in group)
        for group in rx.connected_components(graph)
        for node in group
    }
    assert component_labels(edges) == expected
