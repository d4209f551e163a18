"""The command line knows some words of the server by heart: they are those of the OpenAPI document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import kinds
from cli.commands import queries
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
        (queries.REPLICATION_PLANNERS, "ReplicationPlannerEnum"),
        (queries.APPROVALS, "ApprovalPolicyEnum"),
        (TONES["topology"], "TopologyStatusEnum"),
        (TONES["partition"], "PartitionStateEnum"),
        (TONES["node"], "NodeStateEnum"),
        (TONES["incident"], "IncidentStateEnum"),
        (TONES["checkpoint"], "CheckpointStateEnum"),
        (TONES["operation"], "OperationStateEnum"),
        (TONES["severity"], "SeverityEnum"),
        (TONES["delivery"], "DeliveryStateEnum"),
        (kinds.DOORS, "DoorEnum"),
        (kinds.OPERATION_KINDS, "OperationKindEnum"),
        (kinds.WEBHOOK_KINDS, "WebhookKindEnum"),
        (kinds.EVENT_KINDS, "EventKindEnum"),
    ],
)
def test_words(known: Any, schema: str) -> None:
    assert set(known) == set(SCHEMAS[schema]["enum"])


def test_some_states_are_shown_under_another_name() -> None:
    shown = {"proposed", "replaying", "caught up"}
    assert set(TONES["wave"]) - shown == set(SCHEMAS["PlanStateEnum"]["enum"]) - {"applied"}
    assert set(TONES["query"]) >= set(SCHEMAS["QueryStatusEnum"]["enum"])
