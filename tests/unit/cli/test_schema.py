"""The command line knows some words of the server by heart: they are those of the OpenAPI document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from cli.commands import queries
from cli.main import resurge
from cli.status import TONES

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())["components"][
    "schemas"
]


@pytest.mark.parametrize(
    ("known", "schema"),
    [
        (queries.METHODS, "MethodPolicyEnum"),
        (queries.PLANNERS, "PlannerEnum"),
        (queries.ROLLBACKS, "RollbackPolicyEnum"),
        (queries.APPROVALS, "ApprovalPolicyEnum"),
        (TONES["topology"], "TopologyStatusEnum"),
        (TONES["partition"], "PartitionStateEnum"),
        (TONES["node"], "NodeStateEnum"),
        (TONES["incident"], "IncidentStateEnum"),
        (TONES["checkpoint"], "CheckpointStateEnum"),
        (TONES["operation"], "OperationStateEnum"),
        (TONES["severity"], "SeverityEnum"),
    ],
)
def test_words(known: Any, schema: str) -> None:
    assert set(known) == set(SCHEMAS[schema]["enum"])


def test_some_states_are_shown_under_another_name() -> None:
    shown = {"proposed", "replaying", "caught up"}
    assert set(TONES["wave"]) - shown == set(SCHEMAS["PlanStateEnum"]["enum"]) - {"applied"}
    assert set(TONES["query"]) >= set(SCHEMAS["QueryStatusEnum"]["enum"])


def test_every_command_explains_itself() -> None:
    def walk(command: Any, path: str) -> None:
        assert command.help, path
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{path} {name}")
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, f"{path} {parameter.name}"

    walk(resurge, "resurge")
