"""DRF permission: viewers read, operators act, administrators change settings."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.accounts.roles import OPERATOR, VIEWER, has_role


class RolePermission(BasePermission):
    """Reading needs `viewer`, writing `operator`; a view names more in ``write_role``."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.method in SAFE_METHODS:
            role = getattr(view, "read_role", VIEWER)
        else:
            role = getattr(view, "write_role", OPERATOR)
        self.message = f"Your role does not permit this; ask an administrator for the {role} role."
        return has_role(request.user, role)
