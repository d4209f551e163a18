from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.db import connection
from rest_framework.test import APIClient

from host.environment import ROOT


@pytest.mark.skipif(connection.vendor != "sqlite", reason="integer ranges are those of SQLite")
def test_the_committed_schema_is_current() -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    committed = (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8")
    assert out.getvalue().strip() == committed.strip(), (
        "docs/openapi.yaml is out of date: run manage.py spectacular --validate --file docs/openapi.yaml"
    )


@pytest.mark.django_db
def test_the_documentation_loads_nothing_from_elsewhere(viewer: APIClient) -> None:
    answer = viewer.get("/api/v1/docs/", HTTP_ACCEPT="text/html")
    assert "script-src 'self';" in answer["Content-Security-Policy"]
    page = answer.content.decode()
    assert "<script>" not in page, "inline scripts would be blocked by the policy"
    assert "swagger-ui" in page
    assert "//cdn" not in page
    assert "https://" not in page


@pytest.mark.django_db
def test_migrations_are_complete() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
