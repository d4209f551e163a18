from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from host.private import home_protect, write_private


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("db", "run"):
        (home / name).mkdir(parents=True)
    (home / "db" / "resurge.sqlite3").write_text("")
    home_protect(home)
    write_private(home / "run" / "environment", b"")
    monkeypatch.setenv("RESURGE_HOME", str(home))
    monkeypatch.delenv("RESURGE_DATABASE_URL", raising=False)
    return home


def doctor() -> str:
    said = StringIO()
    call_command("doctor", stdout=said)
    return said.getvalue()


def test_a_closed_home_is_well(home: Path) -> None:
    assert doctor() == f"{home}: closed to other users of this host\n"


def test_what_others_could_read_is_named_with_the_remedy(home: Path) -> None:
    home.chmod(0o755)
    database = home / "db" / "resurge.sqlite3"
    database.chmod(0o644)
    (home / "run" / "environment").chmod(0o640)
    with pytest.raises(CommandError) as told:
        doctor()
    lines = str(told.value).splitlines()
    assert lines[0] == f"other users may use {home} (mode 0755): run `chmod 0700 {home}`"
    assert lines[1] == f"other users may use {database} (mode 0644): run `chmod 0600 {database}`"
    assert "run/environment (mode 0640)" in lines[2]
