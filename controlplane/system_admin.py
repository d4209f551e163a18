"""Bases of the admin pages: what the system owns is shown, not edited; changes go through services."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest

from controlplane.accounts.roles import OPERATOR, has_role
from controlplane.errors import ServiceError


class SystemOwnedAdmin(admin.ModelAdmin):
    """Rows that only the system writes: list, search and look, nothing else."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_staff)


class OperatorActionsMixin:
    """Runs a service for each selected row and reports every refusal."""

    message_user: Any

    def run_service(self, request: HttpRequest, rows: Any, verb: str, service: Any) -> None:
        """Call ``service(row)`` for each row; it raises `ServiceError` to refuse."""
        if not has_role(request.user, OPERATOR):
            self.message_user(request, "This needs the operator role.", messages.ERROR)
            return
        done = 0
        for row in rows:
            try:
                service(row)
            except ServiceError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                done += 1
        if done:
            self.message_user(request, f"{verb}: {done}", messages.SUCCESS)
