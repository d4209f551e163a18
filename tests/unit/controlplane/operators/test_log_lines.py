"""Lines of logs: their time and level, their order, and which are wanted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.operators.log_lines import LONGEST, LogLine, lines_of, merged, wanted

OURS = "timestamp='2026-11-26T07:43:19.031693Z' level='{}' logger='x' event='state'"


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("line", "at", "level"),
    [
        (OURS.format("info"), datetime(2026, 11, 26, 7, 43, 19, 31693, UTC), "info"),
        (OURS.format("critical"), datetime(2026, 11, 26, 7, 43, 19, 31693, UTC), "error"),
        ("2026-11-26T07:44:57.236 ERROR Worker: TERM", local("2026-11-26T07:44:57.236"), "error"),
        ("26/11/26 07:43:17 WARN Utils: hostname", local("2026-11-26T07:43:17"), "warning"),
        ("2026-11-26 07:43:11 [info     ] agent starts  id=node-1", local("2026-11-26T07:43:11"), "info"),
        (
            "\x1b[2m2026-11-26 07:43:11\x1b[0m [\x1b[31merror\x1b[0m    ] x",
            local("2026-11-26T07:43:11"),
            "error",
        ),
        ("WARNING: Using incubator modules", None, "info"),
        ("99/99/99 07:43:17 WARN no such day", None, "warning"),
        ("2026-11-26 07:43:11 [strange  ] x", None, "info"),
    ],
)
def test_each_form(line: str, at: datetime | None, level: str) -> None:
    (read,) = lines_of("driver", line)
    assert (read.at, read.level) == (at, level)


def test_a_traceback_belongs_to_its_line() -> None:
    text = f"{OURS.format('error')}\nTraceback (most recent call last):\n\n  File\tx\n{OURS.format('info')}\n"
    read = list(lines_of("driver", text))
    assert [line.level for line in read] == ["error", "error", "error", "info"]
    assert len({line.at for line in read}) == 1
    assert read[2].text == "  File    x"


def test_what_cannot_be_shown_is_not() -> None:
    (read,) = lines_of("driver", "a\x00b\x1b[31mc\x07" + "x" * 3_000)
    assert read.text.startswith("a�bc�x")
    assert len(read.text) == LONGEST + 1


def test_lines_of_several_files_by_time() -> None:
    def line(source: str, second: int | None, text: str) -> LogLine:
        at = None if second is None else datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
        return LogLine(source, at, "info", text)

    one = [line("a", None, "a0"), line("a", 1, "a1"), line("a", 3, "a3"), line("a", 2, "a late")]
    other = [line("b", 1, "b1"), line("b", 2, "b2")]
    assert [found.text for found in merged([one, other])] == ["a0", "a1", "b1", "b2", "a3", "a late"]


def test_filters() -> None:
    line = LogLine("a", None, "warning", "Straße is Slow")
    assert wanted(line, text="", level="debug")
    assert wanted(line, text="STRASSE", level="warning")
    assert not wanted(line, text="fast", level="debug")
    assert not wanted(line, text="slow", level="error")
