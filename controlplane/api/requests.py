"""What every change has in common: who asks, through which channel, why, and under which key."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypedDict

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.events.serializers import OperationSerializer
from controlplane.api.fields import StrictSerializer, TextField
from controlplane.api.preconditions import expected_of
from controlplane.errors import Invalid
from controlplane.events.choices import Channel
from controlplane.events.models import Operation
from controlplane.events.operations import KEY_LENGTH


class ErrorItemSerializer(serializers.Serializer):
    path = serializers.CharField(help_text="where, as a path into the request; may be empty")
    message = serializers.CharField()
    line = serializers.IntegerField(
        required=False, allow_null=True, help_text="of the YAML or JSON text that was sent, from 1"
    )


class ErrorsSerializer(serializers.Serializer):
    """Why a request was refused."""

    errors = ErrorItemSerializer(many=True)


SAY_WHY = "give a reason: every change is audited with it"


class ReasonSerializer(StrictSerializer):
    """Why the change is made; it is audited."""

    reason = TextField(
        max_length=1000,
        help_text="why; kept in the audit trail",
        error_messages=dict.fromkeys(("required", "blank", "null", "invalid"), SAY_WHY),
    )


IDEMPOTENCY_KEY = OpenApiParameter(
    name="Idempotency-Key",
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    description="Repeating a request with the same key gives the first one's outcome back; another request "
    "with it is refused (409).",
)
REASON = OpenApiParameter(
    name="reason", type=OpenApiTypes.STR, required=True, description="why; kept in the audit trail"
)

COMMAND_LINE = "resurge-cli/"
"""How the command line calls itself (`User-Agent`)."""


class Caller(TypedDict):
    """Keyword arguments of every service that changes something."""

    actor: str
    channel: Channel


def caller(request: Request) -> Caller:
    """A session means a user at a page; a token means automation, or the command line if it says so."""
    by_token = Channel.CLI if request.headers.get("User-Agent", "").startswith(COMMAND_LINE) else Channel.REST
    return {
        "actor": request.user.get_username(),
        "channel": Channel.PAGE if request.auth is None else by_token,
    }


def reason_of(request: Request) -> str:
    """The ``reason`` of a body that says nothing else, or (for DELETE, which may have none) of the query.

    Raises `ValidationError`.
    """
    return str(told_of(request, ReasonSerializer)["reason"])


def told_of(request: Request, kind: type[ReasonSerializer]) -> dict[str, Any]:
    """What a body says, or (for DELETE, which may have none) the query. Raises `ValidationError`."""
    in_query = "reason" in request.query_params and not request.data
    return _valid(kind(data=request.query_params.dict() if in_query else request.data))


def body_of(request: Request, kind: type[serializers.Serializer]) -> dict[str, Any]:
    """What a body says. Raises `ValidationError`."""
    return _valid(kind(data=request.data))


def changes_of(request: Request, kind: type[ReasonSerializer]) -> dict[str, Any]:
    """What a PATCH asks for, as keyword arguments of the service: the `changes`, the reason, what is expected
    to be there, and who asks. Raises `ValidationError` or `ParseError`."""
    changes = body_of(request, kind)
    reason = changes.pop("reason")
    return {"changes": changes, "reason": reason, "expected": expected_of(request), **caller(request)}


def _valid(serializer: serializers.Serializer) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def idempotency_key(request: Request) -> str:
    """The key of a request, or "". Raises `Invalid` for one that is too long."""
    key = str(request.headers.get("Idempotency-Key", "")).strip()
    if len(key) > KEY_LENGTH:
        raise Invalid("Idempotency-Key", f"longer than {KEY_LENGTH} characters")
    return key


def request_digest(request: Request) -> str:
    """Equal for two requests that ask for the same: method, address with its query, and body."""
    text = json.dumps([request.method, request.get_full_path(), request.data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def accepted(operation: Operation, request: Request) -> Response:
    """202 with the operation to follow."""
    body = OperationSerializer(operation, context={"request": request}).data
    return Response(
        body,
        status=status.HTTP_202_ACCEPTED,
        headers={"Location": f"/api/v1/operations/{operation.pk}/"},
    )
