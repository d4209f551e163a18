"""The report as Markdown, for tickets and wikis; the curve is told in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from controlplane.incidents.report.contents import Document, WaveSection, report_of

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def report_markdown(document: Document) -> str:
    report = report_of(document)
    lines = [
        f"# {_text(report.title)}",
        "",
        _text(report.exported),
        *_section("Summary", _table(("", ""), report.summary)),
        *_section("Availability", [line for _, said, _ in report.curves for line in (_text(said), "")]),
        *_section(
            "Timeline",
            _table(
                ("When", "After detection", "Kind", "What"),
                [(line.at, line.after, line.kind, line.text) for line in report.timeline],
            ),
        ),
        *_section("Waves", [line for wave in report.waves for line in _wave(wave)]),
        *_section("Verification", _table(("", ""), report.verification)),
        *_section(
            "Who decided what, and why",
            _table(
                ("When", "Who", "What", "Change", "Why"),
                [(one.at, one.who, one.what, one.change, one.why) for one in report.decisions],
            )
            if report.decisions
            else ["No operator intervened; the recovery followed the policies."],
        ),
        *_section("Policies", _table(("Topology", "Policy"), report.policies)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _wave(wave: WaveSection) -> Iterator[str]:
    yield from (f"### {_text(wave.title)}", "", _text(wave.reason), "")
    yield from _table(("", ""), wave.facts)
    placed = ", ".join(f"{partition} {place}" for partition, place in wave.partitions)
    yield from ("", f"{wave.does}: {_text(placed) or 'nothing'}", "")
    if wave.queries:
        rows = [(one.query, one.priority, one.chosen, one.reason) for one in wave.queries]
        yield from _table(("Query", "Priority", "In this wave", "Why"), rows)
        yield ""


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(_text(cell) for cell in row)} |" for row in rows),
    ]


def _text(text: str) -> str:
    """On one line, and nothing in it means anything to Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
