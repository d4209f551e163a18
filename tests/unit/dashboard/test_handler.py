"""A request goes to its thread once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from dashboard.handler import OneThreadHandler
from dashboard.middleware import HEADER
from tests.unit.dashboard.test_bodies import Exchange

pytestmark = pytest.mark.django_db(transaction=True)


async def test_all_middlewares_and_the_view_run_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    called = MiddlewareMixin.__call__

    def noted(self: Any, request: HttpRequest) -> HttpResponse:
        threads.append(threading.get_ident())
        return called(self, request)

    async def between(self: Any, request: HttpRequest) -> HttpResponse:
        raise AssertionError(f"{type(self).__name__} leaves the request's thread")

    monkeypatch.setattr(MiddlewareMixin, "__call__", noted)
    monkeypatch.setattr(MiddlewareMixin, "__acall__", between)
    asked = await Exchange("/healthz", [], 0, method="GET").run()
    assert (asked.status, asked.text) == (200, b"ok\n")
    assert HEADER.lower().encode() in {name.lower() for name in asked.headers}
    assert len(threads) > 5
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_no_connection_to_the_database_outlasts_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL had a hundred of them, the most that it takes, after some 140 requests."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 60)
    OneThreadHandler()
    assert connections.settings["default"]["CONN_MAX_AGE"] == 0
