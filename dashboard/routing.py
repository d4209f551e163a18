from __future__ import annotations

from django.urls import path

from dashboard.consumers import EventConsumer

websocket_urlpatterns = [path("ws/v1/", EventConsumer.as_asgi())]
