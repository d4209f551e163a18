"""Modules that take long to import and need no settings: the process from which servers are forked imports
them once."""

from __future__ import annotations

import celery.app.base
import channels.generic.websocket
import django.contrib.admin.helpers
import django.core.management
import django.db.backends.sqlite3.base
import django.template.backends.django
import kazoo.client
import redis.asyncio
import requests
import structlog
import uvicorn.protocols.http.auto
import uvicorn.protocols.websockets.auto
import yaml

import cli.main
import domain.planning
import domain.simulation.comparison

__all__ = [
    "celery",
    "channels",
    "cli",
    "django",
    "domain",
    "kazoo",
    "redis",
    "requests",
    "structlog",
    "uvicorn",
    "yaml",
]
