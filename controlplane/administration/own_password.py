"""Forms about accounts that belong to no admin page."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from controlplane.accounts.guessing import password_turn
from controlplane.accounts.users import user_password_set
from controlplane.events.choices import Channel


class OwnPasswordForm(PasswordChangeForm):
    """Users change their own passwords, which is audited like any other change."""

    user: Any

    def __init__(self, *args: Any, request: HttpRequest, **options: Any) -> None:
        super().__init__(*args, **options)
        self._request = request

    def clean_old_password(self) -> str:
        """A wrong one counts as on the sign-in page: who has stolen a session could try any number here."""
        given: str = self.cleaned_data["old_password"]
        name = self.user.get_username()
        with password_turn(name, self._request.META.get("REMOTE_ADDR", "")):
            if authenticate(self._request, username=name, password=given) is None:
                raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return given

    def save(self, commit: bool = True) -> Any:
        self.user = user_password_set(
            user_id=self.user.pk,
            password=self.cleaned_data["new_password1"],
            actor=self.user.get_username(),
            reason="changed by its owner",
            channel=Channel.ADMIN,
            tokens_end=False,  # its owner sees them on the settings page, and programs go on
        )
        return self.user


class OwnPasswordView(PasswordChangeView):
    form_class = OwnPasswordForm

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "request": self.request}
