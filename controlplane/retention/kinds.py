"""What is kept, for how long and how much of it: every kind of row that would grow for ever.

The bounds are settings of the environment (`RESURGE_KEEP_*`, `host/environment.py`), and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import F, Max, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import EVENT_TRIMMED, OPERATION_ENDED
from controlplane.events.services import trimmed_note
from controlplane.incidents.models import RecoveryPlan
from controlplane.measurements.buckets import LEVELS
from host.environment import Keep

CHECKPOINTS_SHOWN = 50
"""The newest of each topology, which stay whatever their age."""


PLANS_KEPT = 10
"""The newest of each topology, which stay as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Rows of one model. `at`: the field by which they age. `removable`: those that may go at all.
    `before_delete`: called with the rows that go, in their transaction."""

    name: str
    title: str
    field: str
    model: str
    at: str
    removable: Callable[[], Q] = Q
    before_delete: Callable[[QuerySet[Any]], None] | None = None

    @property
    def keep(self) -> Keep:
        """The bound in force."""
        keep: Keep = getattr(settings.RESURGE, self.field)
        return keep

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=self.keep.age)

    def rows(self) -> QuerySet[Any]:
        return apps.get_model(self.model)._default_manager.all()

    def removable_rows(self) -> QuerySet[Any]:
        return self.rows().filter(self.removable())


def _metrics() -> Q:
    return Q(kind__in=EVENT_TRIMMED)


def _note_trimmed(rows: QuerySet[Any]) -> None:
    trimmed_note(rows.aggregate(last=Max("sequence"))["last"])


def _checkpoints() -> Q:
    """Complete ones that storage has no more, and failed ones, behind the newest of their topology."""
    ranked = Checkpoint.objects.annotate(
        rank=Window(RowNumber(), partition_by=F("topology_id"), order_by=F("epoch").desc())
    )
    behind = ranked.filter(rank__gt=CHECKPOINTS_SHOWN).values("pk")
    return Q(pk__in=behind) & Q(stored=False) & ~Q(state=CheckpointState.STARTED)


def _plans() -> Q:
    """Those of incidents, behind the newest of their topology. With the others deployments begin: by these
    checkpoints are found as long as they are stored."""
    ranked = RecoveryPlan.objects.annotate(
        rank=Window(RowNumber(), partition_by=F("topology_id"), order_by=F("generation").desc())
    )
    return Q(pk__in=ranked.filter(rank__gt=PLANS_KEPT).values("pk"), incident__isnull=False)


def _longest_buckets() -> Q:
    """Those of shorter ones go by themselves (`measurements.measuring`). They are most of the rows, and would
    leave no room for what is kept for weeks."""
    return Q(seconds=LEVELS[-1].seconds)


def _ended_periods() -> Q:
    return Q(ended_at__isnull=False)


def _ended_operations() -> Q:
    return Q(state__in=OPERATION_ENDED)


def _ended_deliveries() -> Q:
    return Q(ended_at__isnull=False)


def _ended_alerts() -> Q:
    return Q(resolved_at__isnull=False)


def _ended_silences() -> Q:
    return Q(ended_at__isnull=False)


def _ended_sessions() -> Q:
    return Q(expire_date__lt=timezone.now())


def _expired_tokens() -> Q:
    return Q(expiry__lt=timezone.now())


def _sign_ins() -> Q:
    """Those that no longer lock a user out."""
    return Q(attempt_time__lt=timezone.now() - timedelta(seconds=settings.RESURGE.login_lock))


KINDS = (
    Kind(
        name="events", title="Events", field="keep_events", model="events.Event", at="at",
        removable=lambda: ~_metrics(), before_delete=_note_trimmed,
    ),
    Kind(
        name="metrics", title="Events with measurements", field="keep_metrics", model="events.Event", at="at",
        removable=_metrics, before_delete=_note_trimmed,
    ),
    Kind(
        name="availability", title="Samples of availability", field="keep_samples",
        model="topologies.AvailabilitySample", at="at",
    ),
    Kind(
        name="tentative", title="Times of tentative output", field="keep_problems",
        model="topologies.TentativePeriod", at="began_at", removable=_ended_periods,
    ),
    Kind(
        name="node_samples", title="Samples of nodes", field="keep_samples", model="nodes.NodeSample",
        at="at",
    ),
    Kind(
        name="measurements", title="Figures over time", field="keep_measurements",
        model="measurements.Measurement", at="at", removable=_longest_buckets,
    ),
    Kind(
        name="checkpoints", title="Checkpoints", field="keep_checkpoints", model="checkpoints.Checkpoint",
        at="started_at", removable=_checkpoints,
    ),
    Kind(
        name="plans", title="Plans of incidents", field="keep_plans", model="incidents.RecoveryPlan",
        at="created_at", removable=_plans,
    ),
    Kind(name="audit", title="Audit trail", field="keep_audit", model="events.AuditEntry", at="at"),
    Kind(
        name="operations", title="Operations", field="keep_operations", model="events.Operation",
        at="created_at", removable=_ended_operations,
    ),
    Kind(name="problems", title="Problems", field="keep_problems", model="topologies.Problem", at="at"),
    Kind(
        name="sessions", title="Ended sessions", field="keep_sessions", model="sessions.Session",
        at="expire_date", removable=_ended_sessions,
    ),
    Kind(
        name="tokens", title="Expired tokens", field="keep_tokens", model="knox.AuthToken", at="expiry",
        removable=_expired_tokens,
    ),
    Kind(
        name="answers", title="Idempotency keys", field="keep_answers", model="api.KeptAnswer",
        at="created_at",
    ),
    Kind(
        name="deliveries", title="Deliveries of webhooks", field="keep_deliveries",
        model="webhooks.Delivery", at="ended_at", removable=_ended_deliveries,
    ),
    Kind(
        name="alerts", title="Alerts that have ended", field="keep_alerts", model="alerts.Alert",
        at="resolved_at", removable=_ended_alerts,
    ),
    Kind(
        name="silences", title="Silences that have ended", field="keep_alerts", model="alerts.Silence",
        at="ended_at", removable=_ended_silences,
    ),
    Kind(
        name="sign_ins", title="Failed sign-ins", field="keep_sign_ins", model="axes.AccessAttempt",
        at="attempt_time", removable=_sign_ins,
    ),
)  # fmt: skip
"""The bounds by size count the rows that may go: what is in use is not removed to make room."""
