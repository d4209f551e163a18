"""Arrivals at rates that a file gives."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.sources.arrivals import Arrivals, Counts, arrivals_of, counts_read
from spark_jobs.sources.problems import SourceError
from spark_jobs.sources.registry import source_problems

HEADER = "minute,requests\n"


def plainly(counts: list[int], step_us: int, number: int) -> int:
    """The time of a tuple, found step by step."""
    step = 0
    while number >= counts[step % len(counts)]:
        number -= counts[step % len(counts)]
        step += 1
    return step * step_us + int(Fraction(number * step_us, counts[step % len(counts)]))


@pytest.mark.parametrize("counts", [[3, 0, 7, 1], [0, 0, 5], [1], [2, 0, 0]])
def test_each_tuple_arrives_in_its_step(counts: list[int]) -> None:
    arrivals = Arrivals(counts, 1_000)
    end = 3 * sum(counts) + 2
    expected = [plainly(counts, 1_000, number) for number in range(end)]
    assert arrivals.times(0, end).tolist() == expected
    assert arrivals.times(2, end).tolist() == expected[2:]
    assert [arrivals.time(number) for number in range(end)] == expected
    for elapsed in range(0, expected[-1], 61):
        assert arrivals.due(elapsed) == sum(time < elapsed for time in expected)
    assert arrivals.due(-5) == 0
    located = zip(*(column.tolist() for column in arrivals.located(0, end)), strict=True)
    steps = [(turn * len(counts) + step, place) for turn, step, place in located]
    assert [step for step, _ in steps] == [time // 1_000 for time in expected]
    assert all(place == 0 or steps[n - 1] == (step, place - 1) for n, (step, place) in enumerate(steps))


def test_a_speedup_shortens_the_steps() -> None:
    counts = Counts(60_000_000, [600, 1_200])
    assert arrivals_of(counts).due(90_000_000) == 1_200
    assert arrivals_of(counts, speedup=30).due(3_000_000) == 1_200
    assert arrivals_of(counts, speedup=0.5).due(180_000_000) == 1_200


@pytest.mark.parametrize("rate", [7, 100, 12_345])
def test_with_a_rate_the_file_gives_the_distribution_only(rate: int) -> None:
    arrivals = arrivals_of(Counts(60_000_000, [601, 0, 1_199]), speedup=3, rate=rate)
    assert arrivals.total == rate * 60
    assert [abs(int(count) - rate * share / 30) < 1 for count, share in zip(
        arrivals.counts, (601, 0, 1_199), strict=True
    )] == [True] * 3  # fmt: skip


def test_a_rate_at_which_nothing_arrives() -> None:
    with pytest.raises(SourceError, match="at 1 per second nothing would arrive"):
        arrivals_of(Counts(1_000, [1, 2]), speedup=10, rate=1)


def test_a_file_is_read_with_the_length_of_its_steps(tmp_path: Path) -> None:
    body = HEADER + "1998-06-30 22:00,5\n\n1998-06-30 22:05,0\n1998-06-30 22:10, 7\n"
    plain, packed = tmp_path / "r.csv", tmp_path / "r.csv.gz"
    plain.write_text("\ufeff" + body)
    packed.write_bytes(gzip.compress(body.encode()))
    assert counts_read(plain) == counts_read(packed) == Counts(300_000_000, [5, 0, 7])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "the file has no rows"),
        (HEADER, "the file has no rows; a step's length needs two"),
        (HEADER + "2026-01-01,5\n", "the file has 1 rows; a step's length needs two"),
        ("requests\n5\n", "line 1, the header, has 1 columns, not two"),
        (HEADER + "2026-01-01,5\n2026-01-02\n", "line 3 has 1 fields, not two"),
        (HEADER + "2026-01-01,5\n2026-01-02,-3\n", "line 3: -3 is negative; a rate is 0 or more"),
        (HEADER + "2026-01-01,5\n2026-01-02,2.5\n", "line 3: '2.5' is no whole number"),
        (HEADER + "2026-01-01,5\n2026-01-02,\n", "line 3: '' is no whole number"),
        (HEADER + "2026-01-01,9999999999\n", "line 2: 9999999999 is more than 1000000000"),
        (HEADER + "yesterday,5\n", "line 2: 'yesterday' is no time"),
        (HEADER + "2026-01-02,5\n2026-01-01,5\n", "line 3: '2026-01-01' comes -1 day"),
        (HEADER + "2026-01-01,5\n2026-01-01,5\n", "line 3: '2026-01-01' comes 0:00:00 after"),
        (
            HEADER + "2026-01-01 00:00,5\n2026-01-01 00:01,5\n2026-01-01 00:03,5\n",
            "line 4: '2026-01-01 00:03' comes 0:02:00 after the time before, not 0:01:00",
        ),
        (HEADER + "2026-01-01,0\n2026-01-02,0\n", "all counts are 0, so nothing would ever arrive"),
        (b"minute,requests\n\xff,1\n", "the file is not UTF-8 text"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, body: str | bytes, message: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    with pytest.raises(SourceError) as caught:
        counts_read(path)
    assert caught.value.where == str(path)
    assert message in caught.value.what
    assert caught.value.hint


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.csv: there is no such file"):
        counts_read(tmp_path / "none.csv")
    with pytest.raises(SourceError, match="the file cannot be read: Is a directory"):
        counts_read(tmp_path)
    damaged = tmp_path / "rates.csv.gz"
    packed = gzip.compress((HEADER + "2026-01-01,5\n2026-01-02,5\n").encode())
    for content in (b"no gzip", packed[:-9], packed[:20] + b"\xff\xff\xff" + packed[23:]):
        damaged.write_bytes(content)
        with pytest.raises(SourceError, match=r"the file (is no CSV|cannot be read)"):
            counts_read(damaged)


def test_counts_whose_times_would_not_fit_are_refused() -> None:
    with pytest.raises(SourceError, match="their times cannot be reckoned"):
        arrivals_of(Counts(86_400_000_000, [10**9, 1]))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"arrivals": 5}, "arrivals must be the path of a CSV file, not 5"),
        ({"arrivals": ""}, "arrivals must be the path of a CSV file, not ''"),
        ({"arrivals": "r.csv", "speedup": 0}, "speedup must be a number from 0.01 to 10000, not 0"),
        ({"arrivals": "r.csv", "speedup": True}, "speedup must be a number"),
        ({"arrivals": "r.csv", "speedup": float("nan")}, "speedup must be a number"),
        ({"speedup": 2}, "speedup is of the times in `arrivals`, which is missing"),
        ({"partition_by": 3}, "partition_by must be text, not 3"),
        ({"sample": "cats"}, "sample must be one of tweets, page_views, not 'cats'"),
    ],
)
def test_parameters_that_make_no_sense(params: dict[str, Any], message: str) -> None:
    (problem,) = source_problems(params, [])
    assert message in problem


def test_parameters_that_do() -> None:
    assert source_problems({"arrivals": "r.csv", "speedup": 60, "partition_by": "server"}, []) == []
