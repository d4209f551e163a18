"""Creations that are safe to repeat: the answer is kept under the key, in the creation's own transaction."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from django.db import IntegrityError, transaction
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.models import KeptAnswer
from controlplane.api.renderers import json_write
from controlplane.api.requests import idempotency_key, request_digest
from controlplane.errors import Conflict
from controlplane.events.models import Operation

USED = "this Idempotency-Key was used for another request; use a new key"
_HEADERS = ("ETag", "Location")


def once(request: Request, create: Callable[[], Response]) -> Response:
    """`create()`, or what it answered when the same actor sent the same under the same key before.

    A creation that raises keeps nothing. Not for answers that hold a secret. Raises `Conflict` for a key
    that was used for something else, and `Invalid`.
    """
    key = idempotency_key(request)
    if not key:
        return create()
    actor, digest = request.user.get_username(), request_digest(request)
    kept = KeptAnswer.objects.filter(actor=actor, key=key).first()
    if kept is None:
        if Operation.objects.filter(requested_by=actor, idempotency_key=key).exists():
            raise Conflict(USED)
        try:
            with transaction.atomic():
                # The same request, sent a second time meanwhile, waits here until this one has ended.
                kept = KeptAnswer.objects.create(actor=actor, key=key, request=digest)
                return _keep(kept, create())
        except IntegrityError:
            kept = KeptAnswer.objects.filter(actor=actor, key=key).first()
            if kept is None:
                raise
    if kept.request != digest:
        raise Conflict(USED)
    return Response(kept.body, status=kept.status, headers=kept.headers)


def action_key(request: Request) -> str:
    """The key of an action, or "". Raises `Conflict` for that of a creation, and `Invalid`."""
    key = idempotency_key(request)
    if key and KeptAnswer.objects.filter(actor=request.user.get_username(), key=key).exists():
        raise Conflict(USED)
    return key


def _keep(kept: KeptAnswer, response: Response) -> Response:
    kept.status = response.status_code
    kept.headers = {name: response.headers[name] for name in _HEADERS if name in response.headers}
    kept.body = msgspec.json.decode(json_write(response.data))
    kept.save()
    return response
