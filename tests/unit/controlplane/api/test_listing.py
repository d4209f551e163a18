"""Rows that are read as tuples are shown exactly as their serializers show them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from django.utils.functional import lazystr
from rest_framework.exceptions import ErrorDetail
from rest_framework.renderers import JSONRenderer
from rest_framework.test import APIClient

from controlplane.api.checkpoints.serializers import CheckpointSerializer
from controlplane.api.events.serializers import AuditEntrySerializer, OperationSerializer
from controlplane.api.incidents.serializers import IncidentSerializer, RecoveryPlanSerializer
from controlplane.api.renderers import FastJSONRenderer
from controlplane.api.topologies.part_serializers import (
    AvailabilitySampleSerializer,
    PartitionSerializer,
    ProblemSerializer,
    QuerySerializer,
    TopologyVersionSerializer,
)
from controlplane.checkpoints.selectors import checkpoint_list
from controlplane.events.selectors import audit_list, operation_list
from controlplane.incidents.selectors import incident_list, plan_list
from controlplane.topologies.selectors import (
    availability_series,
    partition_list,
    problem_list,
    query_list,
    version_list,
)
from tests.browser.seeding import seed
from tests.unit.controlplane.filling import filled

API = "/api/v1"


@pytest.fixture(scope="module")
def broken(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with filled(django_db_blocker):
        seed("broken")
        yield


def test_lists_show_what_their_serializers_say(broken: None, viewer: APIClient) -> None:
    of = "topologies/hashtags"
    lists: dict[str, tuple[Any, Any]] = {
        "audit/": (audit_list(), AuditEntrySerializer),
        "checkpoints/": (checkpoint_list(), CheckpointSerializer),
        "incidents/": (incident_list(), IncidentSerializer),
        "incidents/2/plans/": (plan_list(incident=2).order_by("generation"), RecoveryPlanSerializer),
        "operations/": (operation_list(), OperationSerializer),
        "problems/": (problem_list(), ProblemSerializer),
        f"{of}/availability/": (availability_series("hashtags"), AvailabilitySampleSerializer),
        f"{of}/partitions/": (partition_list("hashtags"), PartitionSerializer),
        f"{of}/queries/": (query_list("hashtags"), QuerySerializer),
        f"{of}/versions/": (version_list("hashtags"), TopologyVersionSerializer),
    }
    for path, (rows, serializer) in lists.items():
        shown = viewer.get(f"{API}/{path}?limit=5").json()["results"]
        said = json.loads(JSONRenderer().render(serializer(rows[:5], many=True).data))
        assert shown, path
        assert shown == said, path
        assert [*shown[0]] == [*said[0]], "in the same order"


def test_a_page_beyond_the_end_is_empty(broken: None, viewer: APIClient) -> None:
    answer = viewer.get(f"{API}/topologies/hashtags/queries/?offset=1000&limit=10").json()
    assert (answer["results"], answer["next"]) == ([], None)
    assert answer["count"] > 0


def test_json_is_written_as_the_framework_writes_it() -> None:
    values = {"a": [1, 1.5, None, True], "lazy": lazystr("said"), "error": ErrorDetail("wrong", "code")}
    written = FastJSONRenderer().render(values)
    assert json.loads(written) == json.loads(JSONRenderer().render(values))
    assert FastJSONRenderer().render({"text": msgspec.Raw(b'{"a":  1}')}) == b'{"text":{"a":  1}}'
    assert FastJSONRenderer().render(None) == b""
    assert FastJSONRenderer().render([1], "application/json; indent=2") == b"[\n  1\n]"
