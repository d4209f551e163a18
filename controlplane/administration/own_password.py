"""Forms about accounts that belong to no admin page."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import PasswordChangeForm

from controlplane.accounts.users import user_password_set
from controlplane.events.choices import Channel


class OwnPasswordForm(PasswordChangeForm):
    """Users change their own passwords, which is audited like any other change."""

    user: Any

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
