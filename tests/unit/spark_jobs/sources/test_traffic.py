"""The source of traffic: users on roads, what they report, and speeds that sensors measured."""

from __future__ import annotations

import gzip
import math
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.sources.kept import keep
from spark_jobs.sources.problems import SourceError
from spark_jobs.sources.registry import reader_create, source_problems
from spark_jobs.sources.speeds import Speeds, speeds_read
from spark_jobs.sources.traffic import CYCLE, JAM_US, Roads, drawn

ORIGIN = 1_700_000_000_000_000
SECOND = 1_000_000


def roads(users: int = 2_000, segments: int = 40, zipf: float = 0.5, seed: int = 0) -> Roads:
    return Roads(users, segments, zipf, seed, 2 * SECOND)


def reader(stream: str, **params: Any) -> Any:
    given = {"reader": "traffic", "stream": stream, "users": 2_000, "segments": 40, **params}
    return reader_create(given, {"parallelism": 3, "origin_us": ORIGIN, "rate": 500})


def rows(source: Any, start: int, end: int) -> list[dict[str, Any]]:
    parts = source.partitions({"tuple": start}, {"tuple": end})
    return [row for part in parts for batch in source.read(part) for row in batch.to_pylist()]


def test_numbers_that_are_drawn_have_no_pattern() -> None:
    numbers = np.arange(200_000, dtype=np.int64)
    for purpose in (1, 5):
        found = drawn(numbers, 3, purpose)
        assert found.min() >= 0
        assert found.max() < 2**31
        shares = np.bincount(found % 7, minlength=7) / len(found)
        assert abs(shares - 1 / 7).max() < 0.005
    assert (drawn(numbers, 3, 1) != drawn(numbers, 3, 2)).mean() > 0.99
    assert (drawn(numbers, 3, 1) != drawn(numbers, 4, 1)).mean() > 0.99
    assert drawn(numbers[:3] + 2**40, 0, 1).tolist() != drawn(numbers[:3], 0, 1).tolist()


@pytest.mark.parametrize("zipf", [0, 0.5, 1.2])
def test_users_are_on_segments_by_zipfs_law(zipf: float) -> None:
    found = roads(users=100_000, segments=1_000, zipf=zipf)
    sizes = np.diff(found.firsts)
    assert (sizes.sum(), len(sizes)) == (100_000, 1_000)
    total = sum(1 / number**zipf for number in range(1, 1_001))
    for segment in (0, 1, 9, 999):
        assert abs(sizes[segment] - 100_000 / (segment + 1) ** zipf / total) <= 1
    assert found.segment_of(found.firsts[:-1][sizes > 0]).tolist() == np.flatnonzero(sizes).tolist()


def test_all_users_report_in_turn() -> None:
    for users in (1, 2, 7, 1_000):
        found = roads(users=users).user_of(np.arange(3 * users, dtype=np.int64))
        assert sorted(found[:users].tolist()) == list(range(users))
        assert (found[:users] == found[users : 2 * users]).all()


def test_more_users_mean_more_incidents_and_all_of_them_report() -> None:
    found = roads(users=100_000, segments=10)
    sizes = np.diff(found.firsts)
    shares = np.bincount(found.places, minlength=10) / CYCLE
    assert abs(shares - sizes / 100_000).max() < 0.01
    assert (found.reports.counts == sizes[found.places]).all()
    assert abs(found.holds_up.mean() - 0.5) < 0.01


def test_an_incident_holds_its_segment_up_for_a_while() -> None:
    found = roads(users=50, segments=5)
    times = np.arange(0, 400 * SECOND, SECOND // 2, dtype=np.int64)
    segments = drawn(times, 9, 1) % 5
    jams = [
        (int(found.places[incident % CYCLE]), incident * 2 * SECOND)
        for incident in range(200)
        if found.holds_up[incident % CYCLE]
    ]
    expected = [
        any(place == segment and begun <= time < begun + JAM_US for place, begun in jams)
        for segment, time in zip(segments.tolist(), times.tolist(), strict=True)
    ]
    assert 0.1 < np.mean(expected) < 1
    assert found.jammed(segments, times).tolist() == expected
    # What is seen of a part does not depend on where it begins.
    assert found.jammed(segments[500:], times[500:]).tolist() == expected[500:]
    assert found.jammed(segments[:0], times[:0]).tolist() == []
    speeds = found.speeds(segments, times)
    assert {bool(speed < 20) for speed in speeds[np.array(expected)]} == {True}
    assert (speeds[~np.array(expected)] >= 45).all()


@pytest.mark.parametrize("stream", ["locations", "incidents"])
def test_the_same_tuples_however_they_are_cut(stream: str) -> None:
    source = reader(stream)
    whole = rows(source, 0, 3_000)
    assert rows(source, 0, 1_234) + rows(source, 1_234, 1_235) + rows(source, 1_235, 3_000) == whole
    assert rows(pickle.loads(pickle.dumps(source)), 100, 200) == whole[100:200]  # noqa: S301 - our own
    assert [source.watermark(number) for number in (0, 1, 999)] == [whole[n]["ts"] for n in (0, 1, 999)]
    assert source.last_ts(3_000) == whole[-1]["ts"]
    times = [row["ts"] for row in whole]
    assert times == sorted(times)
    assert source.due(times[700] - ORIGIN) == 700
    assert rows(source, 5, 5) == []


def test_locations_come_at_the_rate_and_incidents_every_two_seconds() -> None:
    locations, reports = rows(reader("locations"), 0, 1_000), rows(reader("incidents"), 0, 2_000)
    assert [row["ts"] for row in locations] == [ORIGIN + n * SECOND // 500 for n in range(1_000)]
    assert list(locations[0]) == ["ts", "key", "user_id", "speed"]
    found = roads()
    by_incident: dict[int, list[dict[str, Any]]] = {}
    for row in reports:
        by_incident.setdefault((row["ts"] - ORIGIN) // (2 * SECOND), []).append(row)
    for incident, of in list(by_incident.items())[:-1]:
        segment = int(found.places[incident])
        assert {row["key"] for row in of} == {f"S{segment + 1}"}
        assert [row["user_id"] for row in of] == list(range(found.firsts[segment], found.firsts[segment + 1]))
    homes = {row["user_id"]: row["key"] for row in rows(reader("locations"), 0, 2_000)}
    assert all(homes[row["user_id"]] == row["key"] for row in reports)


def test_a_seed_makes_other_incidents_and_incidents_repeat() -> None:
    first, other = rows(reader("incidents"), 0, 500), rows(reader("incidents", seed=1), 0, 500)
    assert first != other
    source = reader("incidents")
    again = rows(source, source.arrivals.total, source.arrivals.total + 500)
    assert [row["ts"] - CYCLE * 2 * SECOND for row in again] == [row["ts"] for row in first]
    assert [row["key"] for row in again] == [row["key"] for row in first]


class TestMeasuredSpeeds:
    BODY = "north,south,east\n60,61.5,5\n\n50.49,12,6\n"

    def copy(self, tmp_path: Path) -> str:
        (tmp_path / "speeds.csv").write_text(self.BODY)
        keep(str(tmp_path / "speeds.csv"), tmp_path / "L.speeds.json", speeds_read, refresh=True)
        return str(tmp_path / "L.speeds.json")

    def test_every_format(self, tmp_path: Path) -> None:
        plain, packed = tmp_path / "s.csv", tmp_path / "s.csv.gz"
        plain.write_text("\ufeff" + self.BODY)
        packed.write_bytes(gzip.compress(self.BODY.encode()))
        expected = Speeds(["north", "south", "east"], [[60, 62, 5], [50, 12, 6]])
        assert speeds_read(plain) == speeds_read(packed) == expected

    def test_users_move_as_measured(self, tmp_path: Path) -> None:
        source = reader("locations", path=self.copy(tmp_path), speedup=300, users=100)
        found: Counter[tuple[int, str]] = Counter()
        sums: Counter[tuple[int, str]] = Counter()
        for row in rows(source, 0, 3_000):
            place = ((row["ts"] - ORIGIN) // SECOND % 2, row["key"])
            found[place] += 1
            sums[place] += row["speed"]
        means = {place: sums[place] / found[place] for place in found}
        for step, speeds in enumerate(((60, 62, 5), (50, 12, 6))):
            for name, speed in zip(("north", "south", "east"), speeds, strict=True):
                assert math.isclose(means[step, name], speed, abs_tol=0.5)
        keys = {row["key"] for row in rows(reader("incidents", path=self.copy(tmp_path), users=100), 0, 900)}
        assert keys <= {"north", "south", "east"}

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("", "the file has no header"),
            ("a,b\n", "the file has no rows"),
            ("a,,b\n1,2,3\n", "line 1, the header, has an empty name, or one twice"),
            ("a,a\n1,2\n", "line 1, the header, has an empty name, or one twice"),
            ("a,b\n1,2\n3\n", "line 3 has 1 fields, the header 2"),
            ("a,b\n1,fast\n", "line 2: 'fast' is no number"),
            ("a,b\n1,\n", "line 2: '' is no number"),
            ("a,b\n1,2\n3,-4\n", "line 3: -4 is no speed; it must be from 0 to 1000"),
            ("a,b\n1,nan\n", "line 2: nan is no speed"),
            ("a,b\n1,inf\n", "line 2: inf is no speed"),
            (b"a,b\n\xff,1\n", "the file is not UTF-8 text"),
        ],
    )
    def test_files_that_cannot_be_used(self, tmp_path: Path, body: str | bytes, message: str) -> None:
        path = tmp_path / "speeds.csv"
        path.write_bytes(body.encode() if isinstance(body, str) else body)
        with pytest.raises(SourceError) as caught:
            speeds_read(path)
        assert (caught.value.where, message in caught.value.what) == (str(path), True)

    def test_files_that_are_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"none\.csv: there is no such file"):
            speeds_read(tmp_path / "none.csv")
        with pytest.raises(SourceError, match="the file cannot be read: Is a directory"):
            speeds_read(tmp_path)
        packed = gzip.compress(("a,b\n" + "1,2\n3,4\n" * 100).encode())
        for content in (packed[:-9], packed[:20] + b"\xff\xff\xff" + packed[23:]):
            (tmp_path / "damaged.csv.gz").write_bytes(content)
            with pytest.raises(SourceError, match=r"the file (is no CSV|cannot be read)"):
                speeds_read(tmp_path / "damaged.csv.gz")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"stream": "buses"}, "stream must be one of locations, incidents, not 'buses'"),
        ({"stream": None}, "stream must be one of locations, incidents, not None"),
        ({"users": 0}, "users must be a whole number from 1 to 10000000, not 0"),
        ({"segments": 1.5}, "segments must be a whole number from 1 to 100000, not 1.5"),
        ({"seed": -1}, "seed must be a whole number from 0 to 1000000, not -1"),
        ({"every_s": True}, "every_s must be a whole number from 1 to 3600, not True"),
        ({"zipf": -0.1}, "zipf must be a number from 0 to 4, not -0.1"),
        ({"zipf": float("nan")}, "zipf must be a number from 0 to 4"),
        ({"speedup": 0}, "speedup must be a number from 0.01 to 10000, not 0"),
        ({"rate": 0}, "rate must be a whole number"),
        ({"path": 7}, "path must be text, not 7"),
        ({"lateness_s": 3}, "unknown parameter 'lateness_s'; this source takes reader, stream"),
        ({"partition_by": "x"}, "unknown parameter 'partition_by'"),
    ],
)
def test_parameters_that_make_no_sense(params: dict[str, Any], message: str) -> None:
    (problem,) = source_problems({"reader": "traffic", "stream": "locations", **params}, [])
    assert message in problem


def test_parameters_that_do() -> None:
    full = {"users": 10, "segments": 5, "zipf": 0, "seed": 1, "every_s": 5, "rate": 20_000, "speedup": 60}
    assert source_problems({"reader": "traffic", "stream": "incidents", **full}, []) == []
