"""Which server and token are used, and the errors for bad files."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cli.configuration import Target, config_path, target_find, target_save, token_check, url_check
from cli.failures import ConfigurationError

HERE = "http://127.0.0.1:8000"
THERE = "https://resurge.example.com"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"RESURGE_CONFIG": str(tmp_path / "config.json"), "RESURGE_HOME": str(tmp_path / "var")}


def write(env: dict[str, str], content: str, mode: int = 0o600) -> Path:
    path = Path(env["RESURGE_CONFIG"])
    path.write_text(content)
    path.chmod(mode)
    return path


def test_where_the_file_is() -> None:
    assert config_path({"RESURGE_CONFIG": "/etc/one.json"}) == Path("/etc/one.json")
    assert config_path({"XDG_CONFIG_HOME": "/home/a/.c"}) == Path("/home/a/.c/resurge/config.json")
    assert config_path({}) == Path.home() / ".config" / "resurge" / "config.json"


def test_what_is_saved_is_found_and_only_its_owner_can_read_it(env: dict[str, str]) -> None:
    path = Path(env["RESURGE_CONFIG"]).parent / "new" / "config.json"
    env["RESURGE_CONFIG"] = str(path)
    target_save(path, Target(THERE, "secret", ""))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert target_find(variables=env) == Target(THERE, "secret", str(path))
    assert [one.name for one in path.parent.iterdir()] == ["config.json"], "nothing is left beside it"


def test_a_stored_token_goes_to_its_own_server_only(env: dict[str, str]) -> None:
    path = write(env, json.dumps({"url": HERE, "token": "stored"}))
    assert target_find(variables=env).token == "stored"
    assert target_find(HERE + "/", env).token == "stored", "the same address, written otherwise"
    assert target_find(THERE, env).token == ""
    assert target_find(variables={**env, "RESURGE_URL": THERE}).token == ""
    both = {**env, "RESURGE_URL": THERE, "RESURGE_TOKEN": "given"}
    assert target_find(variables=both) == Target(THERE, "given", "the environment")
    assert target_find(variables={**env, "RESURGE_TOKEN": "given"}).token == "given"
    assert target_find(THERE, {**env, "RESURGE_URL": HERE, "RESURGE_TOKEN": "of-here"}).token == ""
    assert target_find(variables=env).source == str(path)
    assert "of-there" not in repr(Target(THERE, "of-there", "")), "not in a traceback either"


def test_the_server_of_the_checkout_comes_last(env: dict[str, str]) -> None:
    access = Path(env["RESURGE_HOME"]) / "run" / "access.json"
    access.parent.mkdir(parents=True)
    access.write_text(json.dumps({"url": HERE, "user": "admin", "password": "p", "token": "own"}))
    access.chmod(0o600)
    assert target_find(variables=env) == Target(HERE, "own", str(access))
    write(env, json.dumps({"url": THERE, "token": "stored"}))
    assert target_find(variables=env).token == "stored"
    assert target_find(HERE, env).token == "own"


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("{", 0o600, "is not JSON"),
        ("\xff", 0o600, "is not JSON"),
        ("[]", 0o600, "is not an object"),
        ("{}", 0o600, "does not name a url"),
        ('{"url": 1}', 0o600, "does not name a url"),
        ('{"url": "http://a", "token": null}', 0o600, "does not name a url"),
        ('{"url": "http://a", "user": "b"}', 0o600, "has a field 'user'"),
        ('{"url": "a"}', 0o600, "is not an address"),
        ('{"url": "http://a", "token": "b"}', 0o640, "chmod 600"),
        ('{"url": "http://a", "token": "b"}', 0o604, "chmod 600"),
    ],
)
def test_a_file_that_cannot_be_used(env: dict[str, str], content: str, mode: int, said: str) -> None:
    write(env, content, mode)
    with pytest.raises(ConfigurationError, match=said):
        target_find(variables=env)


def test_nothing_is_configured(env: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="resurge login"):
        target_find(variables=env)


def test_a_file_that_cannot_be_written(env: dict[str, str]) -> None:
    blocked = write(env, "") / "below" / "config.json"
    with pytest.raises(ConfigurationError, match="RESURGE_CONFIG"):
        target_save(blocked, Target(HERE, "t", ""))


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://Host:8000/", "http://host:8000"),
        ("https://host:443", "https://host"),
        ("https://host:8443/resurge/", "https://host:8443/resurge"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_addresses(given: str, address: str) -> None:
    assert url_check(given) == address


@pytest.mark.parametrize(
    "given",
    [
        "",
        "host",
        "ftp://host",
        "http://",
        "http://a:b@host",
        "http://host?x=1",
        "http://host:99999",
        "http://[::1",
    ],
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(ConfigurationError):
        url_check(given)


@pytest.mark.parametrize("given", ["", "  ", "two words", "line\nbreak", "dürüm"])
def test_what_is_no_token(given: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        token_check(given)
    assert not given.strip() or given not in error.value.format_message()
