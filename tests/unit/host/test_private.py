from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.private import (
    UnsafeHomeError,
    database_files,
    file_problems,
    home_problems,
    home_protect,
    write_private,
)


@pytest.fixture(autouse=True)
def _umask_of_a_shell() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_and_what_is_written_later_is_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home_protect(home)
    (home / "log").mkdir()
    (home / "log" / "web.log").write_text("")
    assert [mode(path) for path in (home, home / "log", home / "log" / "web.log")] == [0o700, 0o700, 0o600]
    assert home_problems(home) == []


def test_files_of_an_earlier_version_are_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("db", "run", "outputs"):
        (home / name).mkdir(parents=True)
    database, script = home / "db" / "resurge.sqlite3", home / "run" / "script"
    database.write_text("")
    script.write_text("")
    script.chmod(0o755)
    assert mode(home) == 0o755
    assert mode(database) == 0o644
    home_protect(home)
    assert mode(home) == mode(home / "outputs") == 0o700
    assert mode(database) == 0o600
    assert mode(script) == 0o700


def test_a_node_closes_the_directory_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "log").mkdir(parents=True)
    home_protect(home, files=False)
    assert (mode(home), mode(home / "log")) == (0o700, 0o755)


def test_what_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    home.mkdir()
    (home / "outputs").symlink_to(shared)
    home_protect(home)
    assert mode(shared) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_home_of_another_user_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    with pytest.raises(UnsafeHomeError, match=r"home belongs to the user 65534.* run it as that user"):
        home_protect(home)
    assert mode(home) == 0o755


def test_a_home_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(UnsafeHomeError, match=rf"every user may replace what is in {parent}.*chmod o-w"):
        home_protect(parent / "home")
    parent.chmod(0o1777)  # as /tmp
    home_protect(parent / "home")


def test_each_problem_says_what_to_do(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    database = home / "d.sqlite3"
    database.write_text("")
    assert home_problems(home) == [f"other users may use {home} (mode 0755): run `chmod 0700 {home}`"]
    assert file_problems([database, home / "missing"]) == [
        f"other users may use {database} (mode 0644): run `chmod 0600 {database}`"
    ]
    assert "cannot be examined" in home_problems(tmp_path / "missing")[0]


def test_the_files_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite3"
    assert database_files(f"sqlite://{path}") == [path, Path(f"{path}-wal"), Path(f"{path}-shm")]
    assert database_files("sqlite://:memory:") == []
    assert database_files("postgres://resurge:x@db/resurge") == []


def test_private_file_replaces_a_readable_one(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == 0o600
