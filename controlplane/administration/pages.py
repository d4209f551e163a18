"""Bases of the admin pages: roles decide, services change, and the audit trail is the history. Rows that the
system owns are shown, not edited. Changes by users go through the services that REST calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from controlplane.accounts.roles import OPERATOR, VIEWER, has_role
from controlplane.administration.forms import ReasonedActionForm, ReasonForm, ServiceForm, by
from controlplane.administration.history import Step, steps_of
from controlplane.errors import ServiceError
from controlplane.events.audit import By
from controlplane.events.models import AuditEntry
from controlplane.events.selectors import audit_of

LONGEST_SEARCH = 200
"""Characters: each word is another condition for the database."""

DATE_LOOKUPS = frozenset({"year", "month", "day"})
"""What the dates above a list send; with a year, Django asks for the rows before the next one."""


class SystemOwnedAdmin(admin.ModelAdmin):
    """Rows that only the system writes: they can be listed, searched and viewed."""

    list_per_page = 50
    show_full_result_count = False
    read_role = VIEWER
    audit_areas: tuple[str, ...] = ()
    """The prefixes (before the dot) of the audited actions about such a row."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_role(request.user, self.read_role)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only what the page's own filters send. Django permits any lookup of a column: a regular expression
        among them would run in the database, or in this process, for as long as its author likes."""
        column, _, how = lookup.rpartition("__")
        if column == self.date_hierarchy:
            return how in DATE_LOOKUPS and value.isascii() and value.isdigit() and int(value) < 9_999
        return any(lookup in _filter_lookups(self.opts.get_field(name)) for name in self.list_filter)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if len(search_term) > LONGEST_SEARCH:
            raise BadRequest(f"search for at most {LONGEST_SEARCH} characters")
        found: tuple[QuerySet[Any], bool] = super().get_search_results(request, queryset, search_term)
        return found

    # ---- history: the audit trail, and no second log beside it ---------------------------------------

    def audit_of(self, obj: Any) -> QuerySet[AuditEntry]:
        """The audit entries about a row, newest first."""
        return audit_of(areas=self.audit_areas, target=str(obj))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self._object_or_404(request, object_id)
        page = self.get_paginator(request, self.audit_of(obj), self.list_per_page).get_page(
            request.GET.get("p", 1)
        )
        steps: list[Step] = steps_of(page.object_list)
        context = {"title": f"Changes of {obj}", "steps": steps, "page": page, **(extra_context or {})}
        return self._page(request, "administration/history.html", obj, context)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """The service has audited it."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """The service has audited it."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """The service has audited it."""

    # ---- parts of pages ------------------------------------------------------------------------------

    def _object_or_404(self, request: HttpRequest, object_id: str) -> Any:
        if not self.has_view_permission(request):
            raise PermissionDenied
        obj = self.get_object(request, admin.utils.unquote(object_id))
        if obj is None:
            raise Http404(f"there is no {self.opts.verbose_name} {object_id}")
        return obj

    def _page(
        self, request: HttpRequest, template: str, obj: Any, context: dict[str, Any]
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "object": obj}
        return TemplateResponse(request, template, {**shared, **context})


def _filter_lookups(field: Any) -> tuple[str, ...]:
    """What Django's filter by this field sends."""
    name, null = field.name, f"{field.name}__isnull"
    if field.is_relation:
        return f"{name}__{field.target_field.name}__exact", null
    return name, f"{name}__exact", null


class ServiceAdmin(SystemOwnedAdmin):
    """Rows that users change through services: `add_form`, `form` and `delete_with`, as far as given."""

    write_role = OPERATOR
    add_form: type[ServiceForm] | None = None
    change_form: type[ServiceForm] | None = None
    add_fields: tuple[str, ...] = ()
    shown_fields: tuple[str, ...] = ()
    """Shown on the change page after the fields that may be changed."""

    delete_note = ""
    """What a user should know before a row is deleted."""

    def delete_with(self, obj: Any, who: By) -> None:
        """Call the service that deletes `obj`; a page without one does not override this."""
        raise NotImplementedError

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.add_form is not None and has_role(request.user, self.write_role)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.change_form is not None and has_role(request.user, self.write_role)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        deletes = type(self).delete_with is not ServiceAdmin.delete_with
        return deletes and has_role(request.user, self.write_role)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None and self.add_form is not None:
            return _reason_last(self.add_form)
        if self.change_form is not None and self.has_change_permission(request, obj):
            return (*_reason_last(self.change_form), *self.shown_fields)
        columns = {field.name for field in self.opts.get_fields()}
        editable = self.change_form.base_fields if self.change_form is not None else ()
        return (*(name for name in editable if name in columns), *self.shown_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else self.shown_fields

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any) -> Any:
        chosen = self.change_form if change else self.add_form
        if chosen is None:
            return super().get_form(request, obj, change=change, **options)
        form = super().get_form(request, obj, change=change, **{**options, "form": chosen})
        form.request = request
        return form

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        return form.instance

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The service has saved it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """There are no related rows to save."""

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask why, then delete through the service; a refusal comes back with the form."""
        obj = self._object_or_404(request, object_id)
        if not self.has_delete_permission(request, obj):
            raise PermissionDenied
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            name = str(obj)
            try:
                with transaction.atomic():
                    self.delete_with(obj, by(request, form.cleaned_data["reason"]))
            except ServiceError as error:
                form.add_error(None, str(error))
            else:
                self.message_user(request, f"Deleted {self.opts.verbose_name} {name}.", messages.SUCCESS)
                return HttpResponseRedirect(
                    reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
                )
        context = {"title": f"Delete {obj}?", "form": form, "note": self.delete_note, **(extra_context or {})}
        return self._page(request, "administration/delete.html", obj, context)

    def secret_page(self, request: HttpRequest, obj: Any, *, what: str, secret: str) -> TemplateResponse:
        """Show a secret in this one answer; it goes into no message, cookie or log."""
        context = {"title": what, "secret": secret}
        return self._page(request, "administration/secret.html", obj, context)


def _reason_last(form: type[ServiceForm]) -> tuple[str, ...]:
    return (*(name for name in form.base_fields if name != "reason"), "reason")


class ReasonedActionsMixin:
    """Runs a service for each selected row of a list and reports every refusal.

    An action is marked ``permissions=["act"]``, so that it is offered only to users who may use it.
    """

    action_form = ReasonedActionForm
    act_role = OPERATOR
    opts: Any
    message_user: Any

    def has_act_permission(self, request: HttpRequest) -> bool:
        return has_role(request.user, self.act_role)

    def response_action(self, request: HttpRequest, queryset: Any) -> Any:
        """Django answers a row that no page offers with an error of the database."""
        for one in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.run_validators(self.opts.pk.to_python(one))
            except ValidationError:
                raise BadRequest(f"{one[:50]!r} is no row of this list") from None
        return super().response_action(request, queryset)  # type: ignore[misc]  # of ModelAdmin, which it is mixed into

    def reason_given(self, request: HttpRequest) -> str | None:
        """The reason beside the action; says so and returns None where there is none."""
        reason = request.POST.get("reason", "").strip()
        if not reason:
            self.message_user(
                request,
                "Say why in the field beside the action: every change is audited with its reason.",
                messages.ERROR,
            )
        return reason or None

    def run_service(
        self, request: HttpRequest, rows: Any, verb: str, service: Callable[[Any, By], object]
    ) -> None:
        """Call ``service(row, who)`` for each row; it raises `ServiceError` to refuse."""
        reason = self.reason_given(request)
        if reason is None:
            return
        done = 0
        for row in rows:
            try:
                service(row, by(request, reason))
            except ServiceError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                done += 1
        if done:
            self.message_user(request, f"{verb}: {done}", messages.SUCCESS)
