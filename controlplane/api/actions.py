"""What all POST actions have in common: a reason, an idempotency key, and 202 with an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.events.serializers import OperationSerializer
from controlplane.api.idempotency import action_key
from controlplane.api.requests import (
    IDEMPOTENCY_KEY,
    ErrorsSerializer,
    ReasonSerializer,
    accepted,
    caller,
    reason_of,
    request_digest,
)
from controlplane.events.models import Operation
from controlplane.events.operations import operation_asked


def action_schema(body: type[serializers.Serializer] = ReasonSerializer) -> Any:
    """How an action with this body looks in the OpenAPI document."""
    refused = dict.fromkeys((400, 403, 404, 409), ErrorsSerializer)
    return extend_schema(
        request=body, parameters=[IDEMPOTENCY_KEY], responses={202: OperationSerializer, **refused}
    )


class ActionsMixin:
    """Gives a view `act`: the service decides whether the action is possible and records the operation."""

    @staticmethod
    def act(
        request: Request, service: Callable[..., Operation], *, reason: str | None = None, **given: Any
    ) -> Response:
        """`reason` where the body has more than that and the view has read it."""
        key = action_key(request)
        with transaction.atomic():
            operation = service(
                reason=reason_of(request) if reason is None else reason,
                idempotency_key=key,
                **caller(request),
                **given,
            )
            if key:
                operation_asked(operation=operation, request=request_digest(request))
        return accepted(operation, request)
