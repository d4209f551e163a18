"""How Django answers a request over ASGI."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import HttpRequest, HttpResponseBase


class OneThreadHandler(ASGIHandler):
    """Hands a request to its thread once. Django's own goes there and back for every middleware, and for the
    view: with ten of them that takes more time than most views."""

    def __init__(self) -> None:
        super().__init__()
        # A request has a thread of its own: a connection to the database that is kept would be used by no
        # other one, and stay open until Python looks for garbage.
        for database in connections.settings.values():
            database["CONN_MAX_AGE"] = 0

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
