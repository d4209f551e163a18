"""`run/access.json`: the account of an installation is made once, and then is its users'."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from host.private import write_private
from supervision import access, start
from supervision.access import Access, access_ensure, access_path, access_read
from supervision.screen import Progress


@pytest.mark.parametrize(
    ("known", "same", "token"),
    [(False, True, "new"), (True, True, "new"), (True, False, "new"), (True, False, "")],
)
def test_an_account_that_users_have_changed_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool, same: bool, token: str
) -> None:
    """A start after a password had been changed, or the account switched off, undid that."""
    asked: list[tuple[tuple[str, ...], str]] = []

    def manage(_: object, *arguments: str, variables: dict[str, str]) -> str:
        asked.append((arguments, variables["RESURGE_ADMIN_PASSWORD"]))
        return json.dumps({"password": same, **({"token": token} if token else {})})

    monkeypatch.setattr(access, "manage", manage)
    installation: Any = SimpleNamespace(home=tmp_path, url="http://127.0.0.1:8000/")
    (tmp_path / "run").mkdir()
    if known:
        before = Access(url="", user="admin", password="recorded", token="ended")
        write_private(access_path(tmp_path), msgspec.json.encode(before))
    found = access_ensure(installation)
    ((arguments, password),) = asked
    assert ("--keep" in arguments) is known
    assert (password == "recorded") is known
    assert (found.password, found.token) == (password if same else "", token)
    assert access_read(tmp_path) == found


@pytest.mark.parametrize("known", [False, True])
def test_one_process_makes_the_tables_and_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Each process loads all of Django, which took a fifth of the CPU time of both."""
    asked: list[tuple[str, ...]] = []

    def manage(_: object, *arguments: str, variables: object = None) -> str:
        asked.append(arguments)
        return json.dumps({"password": True, "token": "new"})

    monkeypatch.setattr(access, "manage", manage)
    monkeypatch.setattr(start, "manage", manage)
    installation: Any = SimpleNamespace(home=tmp_path, url="http://127.0.0.1:8000/")
    (tmp_path / "run").mkdir()
    if known:
        before = Access(url="", user="admin", password="recorded", token="known")
        write_private(access_path(tmp_path), msgspec.json.encode(before))
    found = start._database_prepare(installation, Progress(quiet=True))
    ((command, *options),) = asked
    assert command == ("migrate" if known else "ensure_admin")
    assert ("--migrate" in options) is not known
    assert (found.url, found.token) == (installation.url, "known" if known else "new")
