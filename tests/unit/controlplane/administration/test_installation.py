"""The page of the settings that only the environment can change."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.administration.installation import GROUPS, HIDDEN, groups_shown
from host import environment
from host.environment import Environment, read

SETTINGS = [setting for settings in GROUPS.values() for setting in settings]


def test_every_setting_is_explained() -> None:
    assert sorted(setting.field for setting in SETTINGS) == sorted(
        field.name for field in dataclasses.fields(Environment)
    )
    with open(environment.__file__, encoding="utf-8") as source:
        named = set(re.findall(r'"(RESURGE_[A-Z_]+)"', source.read()))
    assert {setting.variable for setting in SETTINGS} == named
    assert all(setting.effect.endswith(".") for setting in SETTINGS)


def values(role: str, variables: dict[str, str]) -> dict[str, tuple[str, bool]]:
    groups = groups_shown(read(variables), role, variables)
    return {row.variable: (row.value, row.given) for rows in groups.values() for row in rows}


def test_values_in_force_and_where_they_come_from() -> None:
    shown = values("viewer", {"RESURGE_THETA": "1.5", "RESURGE_WEBHOOK_NETWORKS": "10.0.0.0/8,::1"})
    assert shown["RESURGE_THETA"] == ("1.5", True)
    assert shown["RESURGE_CORRELATION_WINDOW"] == ("10", False)
    assert shown["RESURGE_FAULT_INJECTION"] == ("off", False)
    assert shown["RESURGE_REPLACEMENT_DELAY"] == ("uniform:120:360", False)
    assert shown["RESURGE_WEBHOOK_NETWORKS"] == ("10.0.0.0/8, ::1/128", True)
    assert values("viewer", {})["RESURGE_WEBHOOK_NETWORKS"] == ("none", False)


def test_no_secret_is_shown_and_hosts_only_to_administrators() -> None:
    variables = {
        "RESURGE_SECRET_KEY": "hush-key",
        "RESURGE_DATABASE_URL": "postgres://ada:hush-db@db.example/resurge",
        "RESURGE_REDIS_URL": "redis://:hush-redis@redis.example:6379/0",
        "RESURGE_ZOOKEEPER_SECRET": "hush-hush-zookeeper",
        "RESURGE_SPARK_SECRET": "hush-hush-hush-spark",
        "RESURGE_CHECKPOINTS": "s3://key:hush-s3@bucket/path",
        "RESURGE_CHECKPOINTS_PASSWORD": "hush-checkpoints",
    }
    shown = values("administrator", variables)
    assert "hush" not in str(shown)
    assert shown["RESURGE_SECRET_KEY"] == (HIDDEN, True)
    assert shown["RESURGE_ZOOKEEPER_SECRET"] == shown["RESURGE_SPARK_SECRET"] == (HIDDEN, True)
    assert shown["RESURGE_CHECKPOINTS_PASSWORD"] == (HIDDEN, True)
    assert shown["RESURGE_DATABASE_URL"] == ("postgres://...@db.example/resurge", True)
    for role in ("viewer", "operator"):
        seen = values(role, variables)
        assert "example" not in str(seen)
        assert not {"RESURGE_SECRET_KEY", "RESURGE_DATABASE_URL", "RESURGE_HOME"} & set(seen)


@pytest.mark.parametrize(
    ("variable", "url", "shown"),
    [
        (
            "RESURGE_DATABASE_URL",
            "postgres://ada:hush@hush@db.example/resurge",
            "postgres://...@db.example/resurge",
        ),
        (
            "RESURGE_REDIS_URL",
            "redis://redis.example:6379/0?password=hush",
            "redis://redis.example:6379/0?password=...",
        ),
        ("RESURGE_CHECKPOINTS", "redis://:hush/hush@redis.example/1", "redis://...@redis.example/1"),
    ],
)
def test_no_part_of_a_password_is_shown(variable: str, url: str, shown: str) -> None:
    assert values("administrator", {variable: url})[variable] == (shown, True)


def test_the_page(browser: Callable[[str | None], Client], settings: Any) -> None:
    for role in ("viewer", "operator", "administrator"):
        answer = browser(role).get("/admin/installation/")
        page = answer.content.decode()
        assert answer.status_code == 200
        assert "RESURGE_CORRELATION_THRESHOLD" in page
        assert ("RESURGE_DATABASE_URL" in page) == (role == "administrator")
        assert settings.SECRET_KEY not in page
    assert browser("viewer").post("/admin/installation/", {"RESURGE_THETA": "9"}).status_code == 405
    assert browser(None).get("/admin/installation/").status_code == 302
    assert Client().get("/admin/installation/").status_code == 302
