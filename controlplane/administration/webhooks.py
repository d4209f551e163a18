"""Admin pages of webhooks and their delivery log."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from controlplane.accounts.roles import ADMINISTRATOR
from controlplane.administration.forms import by
from controlplane.administration.pages import ReasonedActionsMixin, ServiceAdmin, SystemOwnedAdmin
from controlplane.administration.webhook_forms import WebhookAddForm, WebhookForm
from controlplane.errors import ServiceError
from controlplane.events.audit import By
from controlplane.events.models import AuditEntry
from controlplane.events.selectors import audit_of
from controlplane.webhooks.addresses import url_shown
from controlplane.webhooks.deliveries import delivery_redeliver, webhook_test
from controlplane.webhooks.models import Delivery, DeliveryAttempt, Webhook
from controlplane.webhooks.payload import EventGoneError, body_of
from controlplane.webhooks.services import webhook_delete, webhook_secret_rotate


@admin.register(Webhook)
class WebhookAdmin(ReasonedActionsMixin, ServiceAdmin):
    read_role = write_role = act_role = ADMINISTRATOR
    add_form = WebhookAddForm
    change_form = WebhookForm
    audit_areas = ("webhook",)
    shown_fields = (
        "name", "disabled_because", "failing_since", "failures", "succeeded_at", "created_by", "created_at",
        "updated_at",
    )  # fmt: skip
    list_display = ("name", "host", "enabled", "failing_since", "failures", "succeeded_at", "created_by")
    list_filter = ("enabled",)
    search_fields = ("name", "url")
    actions = ("test", "rotate_secret")

    @admin.display(description="where to", ordering="url")
    def host(self, webhook: Webhook) -> str:
        return url_shown(webhook.url)

    def delete_with(self, obj: Webhook, who: By) -> None:
        webhook_delete(webhook_id=obj.pk, **who)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        webhook = form.instance
        if not change:
            webhook.secret = form.secret
        return webhook

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.secret_page(request, obj, what="Secret", secret=obj.secret)

    @admin.action(description="Send a test", permissions=["act"])
    def test(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(
            request,
            rows,
            "Tests to be found among the deliveries",
            lambda row, who: webhook_test(webhook_id=row.pk, **who),
        )

    @admin.action(description="Make a new secret", permissions=["act"])
    def rotate_secret(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """The present secret also signs for one more day."""
        if len(rows) != 1:
            self.message_user(request, "Choose one webhook: its new secret is shown once.", messages.ERROR)
            return None
        reason = self.reason_given(request)
        if reason is None:
            return None
        try:
            webhook, secret = webhook_secret_rotate(webhook_id=rows[0].pk, **by(request, reason))
        except ServiceError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        return self.secret_page(request, webhook, what="New secret", secret=secret)


class AttemptInline(admin.TabularInline):
    model = DeliveryAttempt
    fields = ("number", "started_at", "duration", "status", "error", "excerpt")
    verbose_name_plural = "attempts"
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # Access to the delivery is checked already.


@admin.register(Delivery)
class DeliveryAdmin(ReasonedActionsMixin, SystemOwnedAdmin):
    """The deliveries of all webhooks, with their outcomes."""

    read_role = act_role = ADMINISTRATOR
    audit_areas = ("webhook",)
    list_display = ("created_at", "webhook", "kind", "sequence", "state", "attempts", "status", "error")
    list_filter = ("state", "webhook", "kind")
    search_fields = ("kind", "topology", "=sequence", "error")
    date_hierarchy = "created_at"
    readonly_fields = ("body",)
    inlines = (AttemptInline,)
    actions = ("redeliver",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """The join leaves out deliveries of deleted webhooks."""
        rows: QuerySet[Delivery] = super().get_queryset(request).select_related("webhook")
        return rows

    @admin.display(description="body")
    def body(self, delivery: Delivery) -> str:
        try:
            return body_of(delivery).decode()
        except EventGoneError as error:
            return str(error)

    def audit_of(self, obj: Delivery) -> QuerySet[AuditEntry]:
        entries = audit_of(areas=self.audit_areas, target=obj.webhook.name)
        return entries.filter(after__delivery=str(obj.pk))

    @admin.action(description="Send again", permissions=["act"])
    def redeliver(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(
            request, rows, "Sending again", lambda row, who: delivery_redeliver(delivery_id=row.pk, **who)
        )
