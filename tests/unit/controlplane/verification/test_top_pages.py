"""The pipeline `top-pages`, from its file to its verified outputs, and against a count of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from controlplane.topologies.validation import pipeline_read
from controlplane.verification.problems import VerificationError
from domain.replication import FidelityModel, equal_rates
from spark_jobs.sources.page_views import page_views_write
from tests.data import shared_data
from tests.outputs import DEPLOYED, epochs_present
from tests.unit.controlplane.verification.small_engine import run_as_planned
from tests.unit.controlplane.verification.test_verifying import faults, verify

RATES = "minute_utc,requests\n1998-06-30 12:00,900\n1998-06-30 12:01,0\n1998-06-30 12:02,3000\n"


def top_pages(**source: Any) -> dict[str, Any]:
    spec = pipeline_read("top-pages")
    params = spec["operators"][0]["params"] | source
    spec["operators"][0]["params"] = {name: value for name, value in params.items() if value is not None}
    return spec


def rows_of(home: Path) -> dict[int, list[tuple[str, int]]]:
    """Window end in seconds -> its pages and views, in order."""
    table = pq.read_table(home / "outputs" / "top-pages" / f"deployed={DEPLOYED}" / "Top")
    found: dict[int, list[tuple[str, int]]] = {}
    ends = pc.cast(table["window_end"], pa.int64()).to_pylist()
    for end, key, count in zip(ends, table["key"].to_pylist(), table["count"].to_pylist(), strict=True):
        found.setdefault(end // 1_000_000, []).append((key, count))
    return found


def test_its_sample_needs_no_file_and_is_exact(tmp_path: Path) -> None:
    spec = top_pages(rate=200)
    topology = run_as_planned(tmp_path, spec, epochs=100)
    assert [operator.name for operator in topology.outputs] == ["Top"]
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    assert verification.tuples == {"Source": 20_000}
    assert verification.inputs == {"Source": str(tmp_path / "input" / "page-views.parquet")}
    windows = rows_of(tmp_path)
    assert len(windows) > 5
    assert all(len(rows) == 100 for rows in list(windows.values())[5:])


@pytest.mark.parametrize("rate", [None, 50])
def test_views_that_arrive_at_the_rates_of_a_file(tmp_path: Path, rate: int | None) -> None:
    """The counts are right although they are those of servers, then regions, then all."""
    views = page_views_write(tmp_path / "views.parquet", views=5_000, seed=5)
    (tmp_path / "rates.csv").write_text(RATES)
    arrivals = {"arrivals": str(tmp_path / "rates.csv"), "speedup": 6, "rate": rate}
    spec = top_pages(path=str(views), **arrivals)
    spec["operators"][4]["params"]["k"] = spec["operators"][5]["params"]["k"] = 5_000
    run_as_planned(tmp_path, spec, epochs=130)
    verification = verify(tmp_path, spec)
    assert (faults(verification), verification.clean) == ({}, True)
    pages = pq.read_table(views)["page_id"].to_pylist()
    counts = [900, 0, 3000] if rate is None else [346, 0, 1_154]  # 50 per second in all
    times = [
        1_700_000_003 + turn * 30 + step * 10 + place * 10 / count
        for turn in range(5)
        for step, count in enumerate(counts)
        for place in range(count)
    ]
    found = rows_of(tmp_path)
    assert len(found) > 10
    for end, rows in found.items():
        inside = Counter(
            str(pages[number % len(pages)]) for number, time in enumerate(times) if end - 60 <= time < end
        )
        expected = sorted(inside.items(), key=lambda item: (-item[1], item[0]))[:100]
        assert rows == expected


def test_a_wrong_count_and_a_lost_epoch_are_found(tmp_path: Path) -> None:
    spec = top_pages(rate=100)
    run_as_planned(tmp_path, spec, epochs=40)
    top = tmp_path / "outputs" / "top-pages" / f"deployed={DEPLOYED}" / "Top" / "partition=0"
    first, second = epochs_present(tmp_path / "outputs", "top-pages", "Top", 0)[:2]
    changed = top / f"epoch={first}" / "part.parquet"
    table = pq.read_table(changed, partitioning=None)
    counts = table.column("count").to_pylist()
    table = table.set_column(3, "count", pa.array([counts[0] + 1, *counts[1:]]))
    pq.write_table(table, changed)
    lost = top / f"epoch={second}" / "part.parquet"
    rows = pq.read_metadata(lost).num_rows
    lost.unlink()
    assert faults(verify(tmp_path, spec)) == {"Top[0]": (rows, 0, 0, 1)}


def test_rows_of_another_partition_are_found(tmp_path: Path) -> None:
    """What the servers' partitions keep depends on which servers they have: it is recomputed, not assumed."""
    spec = top_pages(rate=100)
    for operator in spec["operators"][4:6]:
        operator["params"]["k"] = 3
    run_as_planned(tmp_path, spec, epochs=40)
    assert faults(verify(tmp_path, spec)) == {}
    spec["operators"][0]["params"]["partition_by"] = "page_id"
    assert "Top[0]" in faults(verify(tmp_path, spec))


def test_a_changed_file_of_rates_is_refused(tmp_path: Path) -> None:
    rates = tmp_path / "rates.csv"
    rates.write_text(RATES)
    spec = top_pages(arrivals=str(rates), rate=None)
    run_as_planned(tmp_path, spec, epochs=20)
    assert verify(tmp_path, spec).queries[0].error == ""
    rates.write_text(RATES.replace("900", "901"))
    with pytest.raises(VerificationError, match=r"rates\.csv: the original input has changed"):
        verify(tmp_path, spec)


def test_the_real_views_at_the_real_rates(tmp_path: Path) -> None:
    """The lists of partitions are long enough for the 100 of the whole site."""
    views, rates = shared_data("page_clicks.parquet"), shared_data("wc98_june30_requests_per_minute.csv")
    spec = top_pages(path=str(views), arrivals=str(rates), speedup=60, rate=500)
    run_as_planned(tmp_path / "short", spec, epochs=150)
    verification = verify(tmp_path / "short", spec)
    assert (faults(verification), verification.clean) == ({}, True)
    for operator in spec["operators"][4:6]:
        operator["params"]["k"] = 1_000_000
    run_as_planned(tmp_path / "whole", spec, epochs=150)
    short, whole = rows_of(tmp_path / "short"), rows_of(tmp_path / "whole")
    assert len(short) == len(whole) == 15
    for end, rows in whole.items():
        pages = dict(short[end])
        assert len(pages) == len(rows) == 100
        assert sum(page in pages for page, _ in rows) >= 98
        assert sum(pages.get(page) == count for page, count in rows) >= 90


def test_a_lost_partition_lowers_the_fidelity_and_leaves_a_result(tmp_path: Path) -> None:
    spec = top_pages(rate=200)
    topology = run_as_planned(tmp_path / "whole", spec, epochs=90)
    right = rows_of(tmp_path / "whole")
    model = FidelityModel(topology, equal_rates(topology))
    shares = {}
    for lost in ({"Source[0]"}, {"Source[0]", "Source[3]"}, {"Source[0]", "Regions[1]"}):
        home = tmp_path / "-".join(sorted(lost))
        run_as_planned(home, spec, epochs=90, lost=lost)
        found = rows_of(home)
        assert found.keys() == right.keys()
        same = sum(len({page for page, _ in found[end]} & {page for page, _ in right[end]}) for end in right)
        alive = [index for name, index in model.index.items() if name not in lost]
        fidelity = float(model.plain_fidelity(model.flags([alive]))[0])
        shares[frozenset(lost)] = (fidelity, same / sum(map(len, right.values())))
    ranked = sorted(shares.values(), reverse=True)
    assert [round(fidelity, 2) for fidelity, _ in ranked] == [0.75, 0.5, 0.25]
    assert all(0.3 < share < 1 for _, share in ranked)
    assert ranked[0][1] > ranked[1][1] > ranked[2][1]
