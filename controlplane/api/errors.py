"""One shape for every refusal: ``{"errors": [{"path": "...", "message": "..."}]}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.http import Http404
from rest_framework import status
from rest_framework.exceptions import (
    APIException,
    AuthenticationFailed,
    NotAuthenticated,
    Throttled,
    ValidationError,
)
from rest_framework.response import Response
from rest_framework.views import exception_handler

from controlplane.api.throttling import anonymous_take
from controlplane.errors import (
    BUSY,
    DATABASE_AWAY,
    RETRY_AFTER,
    Busy,
    Conflict,
    Invalid,
    Missing,
    ServiceError,
    Stale,
)
from domain.topology import FieldProblem

log = structlog.get_logger(__name__)

_STATUS: dict[type[ServiceError], int] = {
    Invalid: status.HTTP_400_BAD_REQUEST,
    Conflict: status.HTTP_409_CONFLICT,
    Missing: status.HTTP_404_NOT_FOUND,
    Stale: status.HTTP_412_PRECONDITION_FAILED,
}


def told(problem: FieldProblem) -> dict[str, Any]:
    """A problem as every refusal shows it; with its line where the path names one of a text."""
    line = {} if problem.line is None else {"line": problem.line}
    return {"path": problem.path, "message": problem.message, **line}


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler; unknown exceptions go on to become a logged 500."""
    if isinstance(error, NotAuthenticated | AuthenticationFailed):
        wait = anonymous_take(context["request"].META.get("REMOTE_ADDR", ""))
        error = Throttled(wait) if wait else error
    if isinstance(error, Invalid):
        return Response(
            {"errors": [told(problem) for problem in error.problems]}, status=status.HTTP_400_BAD_REQUEST
        )
    if isinstance(error, Busy):
        return _later(str(error))
    if isinstance(error, ServiceError):
        return Response(
            {"errors": [{"path": "", "message": str(error)}]},
            status=next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400),
            headers={"ETag": error.tag} if isinstance(error, Stale) else None,
        )
    if isinstance(error, DATABASE_AWAY):
        log.error("database not usable now", error=str(error))
        return _later(BUSY)
    if isinstance(error, Http404):
        missing = {"path": "", "message": _missing(context)}
        return Response({"errors": [missing]}, status=status.HTTP_404_NOT_FOUND)
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, ValidationError):
        response.data = {"errors": list(_flattened(error.detail))}
    elif isinstance(error, APIException | DjangoPermissionDenied):
        detail = response.data.get("detail", "") if isinstance(response.data, dict) else ""
        response.data = {"errors": [{"path": "", "message": str(detail)}]}
    return response


def _later(message: str) -> Response:
    return Response(
        {"errors": [{"path": "", "message": message}]},
        status=status.HTTP_503_SERVICE_UNAVAILABLE,
        headers={"Retry-After": str(RETRY_AFTER)},
    )


def _missing(context: dict[str, Any]) -> str:
    """What a view did not find, by the name in its address: `there is no incident 77`."""
    view, request = context.get("view"), context["request"]
    queryset = getattr(view, "queryset", None)
    names = list(getattr(view, "kwargs", {}).values())
    if queryset is None or not names:
        return f"there is nothing at {request.path}; see /api/v1/docs/"
    return f"there is no {queryset.model._meta.verbose_name} {names[-1]!s:.80}"


def _flattened(detail: Any, path: str = "") -> Iterator[dict[str, str]]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            here = "" if name == "non_field_errors" else str(name)
            yield from _flattened(inner, f"{path}.{here}".strip("."))
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            deeper = isinstance(inner, dict | list)
            yield from _flattened(inner, f"{path}[{index}]" if deeper else path)
    else:
        yield {"path": path, "message": str(detail)}
