"""An incident as a document or a report, on standard output or in a file."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from cli.client import Rest
from tests.unit.cli.conftest import Resurge

EXPORT = ("incidents", "export", "1")


def without_moment(text: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(text)
    return {name: value for name, value in document.items() if name not in ("exported_at", "exported_by")}


def test_a_document_for_programs(resurge: Resurge, rest: httpx.Client) -> None:
    answer = resurge(*EXPORT)
    assert (answer.code, answer.err) == (0, "")
    assert without_moment(answer.out) == without_moment(rest.get("incidents/1/export/").text)
    assert answer.json["format"] == "resurge.incident"
    assert answer.json["exported_by"] == "operator"


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        ("incident.html", (), "<!doctype html>"),
        ("incident.md", (), "# Incident 1"),
        ("incident.json", (), "{"),
        ("incident", (), "{"),
        ("incident.txt", ("--format", "md"), "# Incident 1"),
        ("incident.html", ("--format", "json"), "{"),
    ],
)
def test_a_file_is_what_its_name_says(
    resurge: Resurge, tmp_path: Path, name: str, options: tuple[str, ...], begins: str
) -> None:
    file = tmp_path / name
    file.write_text("an older one")
    answer = resurge(*EXPORT, "--to", str(file), *options)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith(f"incident 1 is in {file} (")
    assert file.read_text().lower().startswith(begins.lower())


def test_a_report_on_standard_output(resurge: Resurge) -> None:
    assert resurge(*EXPORT, "--format", "md").out.startswith("# Incident 1")
    assert resurge(*EXPORT, "--format", "html", "--to", "-").out.endswith("</html>\n")


def test_nothing_is_written_where_there_is_nothing(
    resurge: Resurge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "incident.md"
    file.write_text("an older one")
    assert resurge("incidents", "export", "99", "--to", str(file)).code == 6
    # A server that is not Resurge answers everything with a page.
    monkeypatch.setattr(Rest, "_require_success", lambda *_: None)
    other = resurge("incidents", "export", "99", "--to", str(file))
    assert (other.code, "does not answer as a Resurge server does" in other.err) == (3, True)
    assert file.read_text() == "an older one"
    monkeypatch.undo()
    assert resurge(*EXPORT, "--to", str(tmp_path / "no" / "where.md")).code == 2
