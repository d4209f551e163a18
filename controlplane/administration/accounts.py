"""Admin pages of users, roles and tokens. Those of Django and knox would save without calling a service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

# Imported first, so that they have registered their pages before ours replace them.
import django.contrib.auth.admin  # noqa: F401
import knox.admin  # noqa: F401
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as StoredUser
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from knox.models import AuthToken

from controlplane.accounts.models import Role, Token, User
from controlplane.accounts.roles import ADMINISTRATOR, ROLES, role_held
from controlplane.accounts.services import token_create, token_revoke
from controlplane.accounts.users import user_create, user_password_set, user_tag, user_update
from controlplane.administration.forms import EditForm, ServiceForm
from controlplane.administration.pages import ServiceAdmin, SystemOwnedAdmin
from controlplane.events.audit import By
from controlplane.events.models import AuditEntry
from controlplane.events.selectors import audit_of

RIGHTS = {
    "viewer": "reads everything but users, tokens of others and webhooks",
    "operator": "and acts: deploys, recovers, drains nodes, sets policies and priorities",
    "administrator": "and manages users, tokens and webhooks",
}
LONGEST_HOURS = 87_600.0

for _model in (StoredUser, Group, AuthToken):
    admin.site.unregister(_model)


def _role_field() -> forms.ChoiceField:
    choices = [("", "none: sees nothing"), *((role, f"{role}: {RIGHTS[role]}") for role in ROLES)]
    return forms.ChoiceField(choices=choices, required=False)


def _password_field(**options: Any) -> forms.CharField:
    return forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}), strip=False, **options
    )


class UserAddForm(ServiceForm):
    role = _role_field()
    password = _password_field()

    class Meta:
        model = User
        fields = ("username",)

    def apply(self, given: dict[str, Any], who: By) -> Any:
        role = given["role"] or None
        made = user_create(username=given["username"], password=given["password"], role=role, **who)
        return User.objects.get(pk=made.pk)


class UserForm(EditForm):
    role = _role_field()
    active = forms.BooleanField(
        required=False, help_text="An inactive user cannot sign in, and the user's tokens do not work."
    )
    password = _password_field(
        required=False,
        help_text="A new password, which ends the user's sessions and tokens; empty: unchanged.",
    )

    class Meta:
        model = User
        fields = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.initial.update(role=role_held(self.instance) or "", active=self.instance.is_active)

    def tags(self) -> tuple[str, ...]:
        return (user_tag(self.instance),)

    def apply(self, given: dict[str, Any], who: By) -> Any:
        changes = {"role": given["role"] or None, "active": given["active"]}
        user_update(user_id=self.instance.pk, changes=changes, expected=self.expected, **who)
        if given["password"]:
            user_password_set(user_id=self.instance.pk, password=given["password"], tokens_end=True, **who)
        return User.objects.get(pk=self.instance.pk)


@admin.register(User)
class UserAdmin(ServiceAdmin):
    """Users are made inactive instead of deleted, so that the names in the audit trail keep their meaning."""

    read_role = write_role = ADMINISTRATOR
    add_form = UserAddForm
    change_form = UserForm
    audit_areas = ("account", "token")
    shown_fields = ("username", "last_login", "date_joined")
    list_display = ("username", "role", "is_active", "last_login", "date_joined")
    list_filter = ("is_active", "groups")
    search_fields = ("username",)
    ordering = ("username",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).prefetch_related("groups")
        return rows

    @admin.display(description="role")
    def role(self, user: Any) -> str:
        return role_held(user) or "none"


@admin.register(Role)
class RoleAdmin(SystemOwnedAdmin):
    """The roles are fixed; users get them on their own pages."""

    read_role = ADMINISTRATOR
    list_display = fields = ("name", "rights", "members")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(member_count=Count("user"))
        return rows

    @admin.display(description="may do")
    def rights(self, role: Role) -> str:
        return RIGHTS.get(role.name, "none: this group is not a role")

    @admin.display(description="users")
    def members(self, role: Any) -> int:
        return int(role.member_count)


class TokenForm(ServiceForm):
    lifetime_hours = forms.FloatField(
        required=False, min_value=0.01, max_value=LONGEST_HOURS, help_text="Empty: it does not expire."
    )

    class Meta:
        model = Token
        fields = ("user",)

    def apply(self, given: dict[str, Any], who: By) -> Token:
        hours = given["lifetime_hours"]
        made, self.text = token_create(
            user=given["user"], lifetime=None if hours is None else timedelta(hours=hours), **who
        )
        return Token.objects.get(pk=made.pk)


@admin.register(Token)
class TokenAdmin(ServiceAdmin):
    """API tokens: made for a user and shown once, revoked by deleting them; never changed."""

    read_role = write_role = ADMINISTRATOR
    add_form = TokenForm
    audit_areas = ("token",)
    shown_fields = ("token_key", "user", "created", "expiry")
    list_display = ("token_key", "user", "created", "expiry")
    list_filter = ("user",)
    list_select_related = ("user",)
    search_fields = ("token_key", "user__username")
    ordering = ("-created",)

    def audit_of(self, obj: Token) -> QuerySet[AuditEntry]:
        return audit_of(areas=self.audit_areas, target=obj.user.get_username()).filter(
            after__key=obj.token_key
        )

    def delete_with(self, obj: Token, who: By) -> None:
        token_revoke(token=obj, **who)

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        token = form.instance
        token.text = form.text
        return token

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.secret_page(request, obj, what="Token", secret=obj.text)
