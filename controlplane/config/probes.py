"""Liveness, readiness and Prometheus metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django_prometheus.exports import ExportToDjangoView
from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.config.life_signs import redis_of, threads_missing
from controlplane.config.metrics import metrics_register
from coordination.session import Session

log = structlog.get_logger(__name__)


def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; no other server is checked."""
    return HttpResponse("ok\n", content_type="text/plain")


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _redis() -> None:
    client = redis.Redis.from_url(settings.RESURGE.redis_url, socket_connect_timeout=1, socket_timeout=1)
    try:
        client.ping()
    finally:
        client.close()


def _zookeeper() -> None:
    # A short session of its own: the web process keeps none, so that it stays stateless.
    with closing(
        Session(settings.RESURGE.zookeeper, 2.0, secret=settings.RESURGE.zookeeper_secret)
    ) as session:
        session.start()
        session.require_connected(2.0)
        session.exists("/")


def _threads() -> None:
    with closing(redis_of(settings.RESURGE.redis_url)) as client:
        missing = threads_missing(client)
    if missing:
        raise ThreadsMissingError(missing)


class ThreadsMissingError(RuntimeError):
    """Threads of other processes that must live gave no sign of life."""

    def __init__(self, missing: list[str]) -> None:
        super().__init__(", ".join(missing))
        self.missing = missing


CHECKS: dict[str, Callable[[], None]] = {
    "database": _database,
    "redis": _redis,
    "zookeeper": _zookeeper,
    "threads": _threads,
}


REMEMBERED = 1.0
"""Seconds for which an answer is kept: requests need no sign-in, and each check opens three connections."""

_lock = threading.Lock()
_remembered: tuple[float, dict[str, str]] | None = None


def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database, Redis and ZooKeeper answer and all threads live that must, else 503 naming what does
    not; the log says why."""
    results = _checked()
    ready = all(result == "ok" for result in results.values())
    return JsonResponse({"ready": ready, "checks": results}, status=200 if ready else 503)


def _checked() -> dict[str, str]:
    global _remembered
    with _lock:
        if _remembered is None or time.monotonic() - _remembered[0] > REMEMBERED:
            _remembered = (time.monotonic(), {name: _verdict(name, check) for name, check in CHECKS.items()})
        return _remembered[1]


def _verdict(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except ThreadsMissingError as error:
        log.warning("not ready", missing=error.missing)
        return f"missing: {error}"
    except Exception as error:  # any failure of a dependency is the answer, not a fault here
        log.warning("not ready", dependency=name, error=f"{type(error).__name__}: {error}")
        return "unavailable"
    return "ok"


class MetricsView(APIView):
    """Figures for Prometheus: of this web process, and of the topologies, nodes and incidents. Asked for
    with a viewer's token."""

    schema = None

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        # There is only one format, so the scraper's preference is ignored.
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request) -> HttpResponse:
        metrics_register()
        response: HttpResponse = ExportToDjangoView(request)
        return response
