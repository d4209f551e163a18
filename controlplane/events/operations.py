"""Operations: asynchronous actions that users asked for, from request to outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import By, audit_record
from controlplane.events.choices import (
    OPERATION_ENDED,
    OPERATION_OPEN,
    Channel,
    EventKind,
    OperationKind,
    OperationState,
)
from controlplane.events.models import Operation
from controlplane.events.representation import operation_change
from controlplane.events.services import event_publish, writing
from controlplane.events.tasks import OPERATION_RUN, task_send_on_commit

KEY_LENGTH = 128
PACE = 1.0


def operation_find(*, kind: OperationKind, target: str, actor: str, idempotency_key: str) -> Operation | None:
    """The operation this actor already asked for under this key, if any.

    Raises `Conflict` when the key was used for something else.
    """
    if not idempotency_key:
        return None
    if len(idempotency_key) > KEY_LENGTH:
        raise Invalid("Idempotency-Key", f"longer than {KEY_LENGTH} characters")
    earlier = Operation.objects.filter(requested_by=actor, idempotency_key=idempotency_key).first()
    if earlier is not None and (earlier.kind, earlier.target) != (str(kind), target):
        raise Conflict(
            f"this Idempotency-Key was used for {earlier.kind} of {earlier.target}; "
            "use a new key for another action"
        )
    return earlier


def operation_asked(*, operation: Operation, request: str) -> None:
    """Keep the digest of the request that asked for it, in the same transaction.

    Raises `Conflict` where an earlier one under its key was another: same action, other parameters.
    """
    if not Operation.objects.filter(pk=operation.pk, request__in=("", request)).update(request=request):
        raise Conflict(
            f"this Idempotency-Key was used for {operation.kind} of {operation.target} with other "
            "parameters; use a new key"
        )


class Asked(By):
    """Keyword arguments of every service that asks for an operation: who asks, and under which key."""

    idempotency_key: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What a service says when it permits an operation.

    before, after: for the audit trail, what the target was when it was asked for, and what has changed at
    once; what the operation changes later is told by its result.
    done: nothing is left for the recovery worker, so that the operation has succeeded.
    announce: publishes what has changed at once, after the operation itself.
    """

    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    done: bool = False
    announce: Callable[[], object] | None = None


@writing
def operation_request(
    *,
    kind: OperationKind,
    target: str,
    actor: str,
    reason: str,
    channel: Channel,
    idempotency_key: str = "",
    permit: Callable[[], Permission] = Permission,
) -> Operation:
    """Find the operation that was asked for under this key; else permit it, record and audit it, and hand it
    to ``recovery.operation_run``.

    permit: raises `Conflict`, in words for an operator, where the target's state does not allow it. It is not
    called for an operation that is found.
    Raises `Invalid` without a reason.
    """
    earlier = operation_find(kind=kind, target=target, actor=actor, idempotency_key=idempotency_key)
    if earlier is not None:
        return earlier
    permission = permit()
    reason_require(reason)
    parameters = permission.parameters or {}
    operation = Operation(
        kind=str(kind),
        target=target,
        requested_by=actor,
        reason=reason,
        parameters=parameters,
        idempotency_key=idempotency_key,
    )
    try:
        with transaction.atomic():
            operation.save(force_insert=True)
    except IntegrityError:
        # The same request twice at the same moment: the other one was first.
        earlier = operation_find(kind=kind, target=target, actor=actor, idempotency_key=idempotency_key)
        if earlier is None:
            raise
        return earlier
    audit_record(
        actor=actor,
        channel=channel,
        action=str(kind),
        target=target,
        before=permission.before,
        after={**(permission.after or {}), **parameters, "operation": str(operation.pk)},
        reason=reason,
    )
    _publish(operation)
    if not permission.done:
        task_send_on_commit(OPERATION_RUN, str(operation.pk))
    if permission.announce is not None:
        permission.announce()
    return operation_succeed(operation=operation) if permission.done else operation


def operation_start(*, operation: Operation, result: dict[str, Any] | None = None) -> Operation:
    """A worker has begun with it; `result` may hold what its end is recognised by."""
    return _move(operation, OperationState.RUNNING, result=result)


def operation_progress(operation: Operation) -> Callable[[str, int, int], None]:
    """To be called with what is done now, the steps done and their number: notes it in the result, at most
    once in `PACE` seconds."""
    told = 0.0

    def note(what: str, done: int, steps: int) -> None:
        nonlocal told
        if time.monotonic() - told >= PACE:
            told = time.monotonic()
            operation_start(operation=operation, result={"progress": {"done": done, "steps": steps}})

    return note


def operation_succeed(*, operation: Operation, result: dict[str, Any] | None = None) -> Operation:
    return _move(operation, OperationState.SUCCEEDED, result=result)


def operation_fail(*, operation: Operation, error: str) -> Operation:
    return _move(operation, OperationState.FAILED, error=error)


def operations_open(*, kind: OperationKind, target: str) -> list[Operation]:
    return list(
        Operation.objects.filter(kind=str(kind), target=target, state__in=OPERATION_OPEN).order_by(
            "created_at"
        )
    )


def reason_require(reason: str) -> None:
    """Every change needs a reason; raises `Invalid` without one."""
    if not reason.strip():
        raise Invalid("reason", "give a reason: every change is audited with it")


@writing
def _move(
    operation: Operation,
    state: OperationState,
    *,
    result: dict[str, Any] | None = None,
    error: str = "",
) -> Operation:
    current = Operation.objects.select_for_update().get(pk=operation.pk)
    if current.state in OPERATION_ENDED:
        return current  # a redelivered task: the first outcome stands
    known = {**current.result, **(result or {})}
    if (current.state, current.result) == (state, known):
        return current  # the sweep looks at what is open again and again
    current.state, current.result = str(state), known
    current.error = error
    if state in OPERATION_ENDED:
        current.ended_at = timezone.now()
    current.save(update_fields=["state", "result", "error", "ended_at"])
    _publish(current)
    return current


def _publish(operation: Operation) -> None:
    area, _, _ = operation.kind.partition(".")
    event_publish(
        kind=EventKind.OPERATION_UPDATED,
        changes=[operation_change(operation)],
        topology=operation.target if area == "topology" else None,
        node=operation.target if area == "node" else None,
        incident=int(operation.target) if area == "incident" else None,
        actor=operation.requested_by,
        reason=operation.reason,
    )
