"""Modules that take long to import and need no settings: the process from which servers are forked imports
them once."""

from __future__ import annotations

import celery.app.base
import channels.generic.websocket
import django.contrib.admin.helpers
import django.contrib.postgres.fields
import django.core.management
import django.db.backends.sqlite3.base
import django.template.backends.django
import django.test.client
import kazoo.client
import prometheus_client
import redis.asyncio
import requests
import structlog
import uvicorn.protocols.http.auto
import uvicorn.protocols.websockets.auto
import yaml

import cli.main
import domain.execution.shadows
import domain.planning
import domain.replication
import domain.simulation.comparison
import spark_jobs.operators.catalogue
import spark_jobs.sources.prepare

__all__ = [
    "celery",
    "channels",
    "cli",
    "django",
    "domain",
    "kazoo",
    "prometheus_client",
    "redis",
    "requests",
    "spark_jobs",
    "structlog",
    "uvicorn",
    "yaml",
]
