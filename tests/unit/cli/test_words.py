"""Numbers, times and texts for people."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cli import words


def test_a_text_cannot_move_the_cursor() -> None:
    hostile = "node\x1b[2J\x1b]0;owned\x07\u202e\x9b1m\nnext"
    assert words.plain(hostile) == "node\ufffd[2J\ufffd]0;owned\ufffd\ufffd\ufffd1m next"
    assert words.plain("O3[2] – ≥ 80 %") == "O3[2] – ≥ 80 %"


def test_names_are_sorted_as_people_count() -> None:
    names = ["O10[0]", "O2[10]", "O2[9]", "node-11", "node-2", "O"]
    assert sorted(names, key=words.by_name) == ["O", "O2[9]", "O2[10]", "O10[0]", "node-2", "node-11"]
    assert words.listed(f"node-{i}" for i in range(12)) == (
        "node-0, node-1, node-2, node-3, node-4, node-5, node-6, node-7 and 4 more"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.24, "240 ms"), (1.42, "1.42 s"), (42.2, "42 s"), (59.6, "1 min 0 s"),
     (200, "3 min 20 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h 0 min"),
     (7500, "2 h 5 min"), (172_799.6, "2 d 0 h"), (273_600, "3 d 4 h"), (-1, "0 ms")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


def test_numbers() -> None:
    assert [words.rate(value) for value in (None, 980, 12_400, 1_200_000)] == ["–", "980", "12.4k", "1.20M"]
    assert [words.size(value) for value in (None, 512, 2_310_000, 8.1e10)] == [
        "–",
        "512 B",
        "2.3 MB",
        "81 GB",
    ]
    assert [words.relative(value) for value in (None, 1.03, 42, 103, 5000)] == [
        "–",
        "1.03×",
        "42.0×",
        "103×",
        ">999×",
    ]
    assert [words.stopwatch(value) for value in (42, 725, 3800)] == ["0:42", "12:05", "1:03:20"]
    assert words.sparkline([(0, 0.0), (5, 0.5), (9, 1.0)], 10, 11) == "▁▁▁▁▁▅▅▅▅██"
    assert words.sparkline([], 10) == ""


def test_times() -> None:
    now = datetime(2026, 3, 12, 12, 0, 0, tzinfo=UTC)
    assert words.since("2026-03-12T11:59:30Z", now) == 30
    assert words.between("2026-03-12T11:59:30Z", "2026-03-12T12:00:00.5+00:00") == 30.5
    for nonsense in (None, "", "yesterday", 12, "2026-03-12T11:59:30"):
        assert words.since(nonsense, now) is None
        assert words.clock(nonsense, now) == "–"
    assert words.clock("2026-03-12T12:00:00Z", now) == words.clock("2026-03-11T12:00:00Z", now)[-8:]
    assert words.clock("2026-02-12T12:00:00Z", now).startswith("12 Feb ")
    assert words.clock("2025-03-12T12:00:00Z", now).startswith("12 Mar 2025 ")
    assert words.age(0.4) == "now"
    assert words.age(59) == "59 s ago"
