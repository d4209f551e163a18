"""Replaces sending to Celery, so that tests need no broker; and the web server itself, with its options."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from dashboard.asgi import application
from supervision.programs import WEB_OPTIONS
from tests.unit.controlplane.conftest import sent_tasks

__all__ = ["port", "sent_tasks"]


@pytest.fixture
def port() -> Iterator[int]:
    """Of the web server itself, with the application and the options with which it is served."""
    given = uvicorn.main.make_context("uvicorn", ["dashboard.asgi:application", *WEB_OPTIONS]).params
    options = {name: given[name] for name in ("ws_max_size", "ws_per_message_deflate", "lifespan", "http")}
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", **options))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
