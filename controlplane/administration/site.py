"""The admin site: roles decide who may look, users sign in at one place, and services make every change."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.views.decorators.http import require_safe

from controlplane.accounts.roles import role_of

RECENT = 10


class Site(AdminSite):
    site_header = site_title = "Resurge"
    index_title = "Administration"
    index_template = "administration/index.html"
    site_url = "/"

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        # It would delete rows in bulk without calling a service.
        self.disable_action("delete_selected")

    def has_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) is not None

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Passwords are entered on the sign-in page only, not here."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied("Your account has no role; ask an administrator for one.")
        answer: HttpResponse = redirect_to_login(
            request.GET.get("next") or reverse("admin:index"), settings.LOGIN_URL
        )
        return answer

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        from controlplane.administration.own_password import OwnPasswordView

        view = OwnPasswordView.as_view(
            success_url=reverse("admin:password_change_done"),
            template_name="registration/password_change_form.html",
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        request.current_app = self.name
        answer: HttpResponse = view(request)
        return answer

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        from controlplane.administration.events import entries_shown

        recent = entries_shown(request.user)[:RECENT]
        answer: HttpResponse = super().index(request, {"recent": recent, **(extra_context or {})})
        return answer

    # ---- the installation's settings -----------------------------------------------------------------

    def get_urls(self) -> list[URLPattern | URLResolver]:
        ours = [path("installation/", self.admin_view(require_safe(self.installation)), name="installation")]
        return [*ours, *super().get_urls()]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super().get_app_list(request, app_label)
        if app_label is not None:
            return found
        address = reverse("admin:installation")
        page = {
            "name": "Settings",
            "object_name": "Installation",
            "perms": {"add": False, "change": False, "delete": False, "view": True},
            "admin_url": address,
            "add_url": None,
            "view_only": True,
        }
        entry = {
            "name": "Installation",
            "app_label": "installation",
            "app_url": address,
            "has_module_perms": True,
            "models": [page],
        }
        return [entry, *found]

    def installation(self, request: HttpRequest) -> HttpResponse:
        """What the installation was started with: read-only, with what each setting does."""
        from controlplane.administration.installation import groups_shown, problems_shown
        from controlplane.retention.selectors import retention_state

        context = {
            **self.each_context(request),
            "title": "Settings of the installation",
            "groups": groups_shown(settings.RESURGE, role_of(request.user)),
            "kept": retention_state(),
            "problems": problems_shown(),
        }
        request.current_app = self.name
        return TemplateResponse(request, "administration/installation.html", context)
