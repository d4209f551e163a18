"""The states and kinds that the command line has built in are those of the OpenAPI document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import kinds
from cli.commands import queries
from cli.status import TONES

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    document = yaml.load((ROOT / "docs" / "openapi.yaml").read_text(), Loader=yaml.CSafeLoader)
    found: dict[str, Any] = document["components"]["schemas"]
    return found


@pytest.mark.parametrize(
    ("known", "schema"),
    [
        (queries.METHODS, "MethodPolicyEnum"),
        (queries.PLANNERS, "PlannerEnum"),
        (queries.ROLLBACKS, "RollbackPolicyEnum"),
        (queries.REPLICATION_MODES, "ReplicationModeEnum"),
        (queries.REPLICATION_PLANNERS, "ReplicationPlannerEnum"),
        (queries.REPLICATION_OBJECTIVES, "ObjectiveEnum"),
        (queries.APPROVALS, "ApprovalPolicyEnum"),
        (TONES["topology"], "TopologyStatusEnum"),
        (TONES["partition"], "PartitionStateEnum"),
        (TONES["node"], "NodeStateEnum"),
        (TONES["incident"], "IncidentStateEnum"),
        (TONES["checkpoint"], "CheckpointStateEnum"),
        (TONES["operation"], "OperationStateEnum"),
        (TONES["severity"], "SeverityEnum"),
        (TONES["delivery"], "DeliveryStateEnum"),
        (TONES["alert"], "AlertStateEnum"),
        (TONES["urgency"], "AlertSeverityEnum"),
        (kinds.CHANNELS, "ChannelEnum"),
        (kinds.OPERATION_KINDS, "OperationKindEnum"),
        (kinds.WEBHOOK_KINDS, "WebhookKindEnum"),
        (kinds.EVENT_KINDS, "EventKindEnum"),
        (kinds.ALERT_METRICS, "AlertMetricEnum"),
    ],
)
def test_words(known: Any, schema: str, schemas: dict[str, Any]) -> None:
    assert set(known) == set(schemas[schema]["enum"])


def test_some_states_are_shown_under_another_name(schemas: dict[str, Any]) -> None:
    shown = {"proposed", "replaying", "catching up", "caught up"}
    assert set(TONES["wave"]) - shown == set(schemas["PlanStateEnum"]["enum"]) - {"applied"}
    assert set(TONES["query"]) >= set(schemas["QueryStatusEnum"]["enum"])
