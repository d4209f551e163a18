"""Liveness, readiness and Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable

import redis
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django_prometheus.exports import ExportToDjangoView
from kazoo.client import KazooClient

from controlplane.config.metrics import metrics_register


def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is asked."""
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
    client = KazooClient(hosts=settings.RESURGE.zookeeper, timeout=2.0)
    try:
        client.start(timeout=2)
        client.exists("/")
    finally:
        client.stop()
        client.close()


CHECKS: dict[str, Callable[[], None]] = {
    "database": _database,
    "redis": _redis,
    "zookeeper": _zookeeper,
}


def readyz(request: HttpRequest) -> JsonResponse:
    """200 when the database, Redis and ZooKeeper answer, else 503 naming those that do not."""
    results: dict[str, str] = {}
    for name, check in CHECKS.items():
        try:
            check()
        except Exception as error:  # any failure of a dependency is the answer, not a fault here
            results[name] = f"{type(error).__name__}: {error}"
        else:
            results[name] = "ok"
    ready = all(result == "ok" for result in results.values())
    return JsonResponse({"ready": ready, "checks": results}, status=200 if ready else 503)


def metrics(request: HttpRequest) -> HttpResponse:
    """Figures for Prometheus: of this web process, and of the topologies, nodes and incidents."""
    metrics_register()
    response: HttpResponse = ExportToDjangoView(request)
    return response
