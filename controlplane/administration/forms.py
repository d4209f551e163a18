"""Forms whose last check is the service itself, so that a page accepts what REST accepts and nothing else."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.helpers import ActionForm
from django.db import transaction
from django.http import HttpRequest

from controlplane.errors import Invalid, ServiceError
from controlplane.events.audit import By
from controlplane.events.choices import Channel
from controlplane.preconditions import ANYTHING, Expected

REASON, SEEN = "reason", "seen"
REASON_LENGTH = 1000
REASON_HELP = "Why; kept in the audit trail."


def by(request: HttpRequest, reason: str) -> By:
    return {"actor": request.user.get_username(), "reason": reason, "channel": Channel.ADMIN}


def reason_field() -> forms.CharField:
    return forms.CharField(
        max_length=REASON_LENGTH,
        help_text=REASON_HELP,
        widget=forms.TextInput(attrs={"size": 80, "class": "vLargeTextField"}),
    )


class ServiceForm(forms.ModelForm):
    """Calls `apply` once every field is well-formed; refusals of the service become the form's errors.

    The model's own validation is left out: the service is the authority, and saves.
    """

    reason = reason_field()
    request: HttpRequest
    """The acting user; set by the admin page."""

    def apply(self, given: dict[str, Any], who: By) -> Any:
        """Call the service with the cleaned fields (without the reason); returns the object as it is now.

        Raises `ServiceError`.
        """
        raise NotImplementedError

    def field_of(self, path: str) -> str | None:
        """The form field that a path of an `Invalid` is about; None for the form as a whole."""
        return path if path in self.fields else None

    def save(self, commit: bool = True) -> Any:
        return self.instance  # the service has saved it

    def save_m2m(self) -> None:
        """The service has saved it."""

    def _post_clean(self) -> None:
        if self.errors:
            return
        given = {name: value for name, value in self.cleaned_data.items() if name not in (REASON, SEEN)}
        reason = self.cleaned_data[REASON]
        try:
            with transaction.atomic():
                self.instance = self.apply(given, by(self.request, reason))
        except Invalid as error:
            for problem in error.problems:
                field = self.field_of(problem.path)
                self.add_error(
                    field, problem.message if field == problem.path and problem.line is None else str(problem)
                )
        except ServiceError as error:
            self.add_error(None, str(error))


class EditForm(ServiceForm):
    """Changes a row that is there, as it was when the page was opened: a form sends all its fields, so it
    would put back what another user has changed meanwhile."""

    seen: forms.CharField | None = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.pk is not None:
            self.initial[SEEN] = " ".join(self.tags())

    def tags(self) -> tuple[str, ...]:
        """The entity tags of what the form changes of its instance."""
        raise NotImplementedError

    @property
    def expected(self) -> Expected:
        """What its author has seen, for the service."""
        tags = frozenset(self.cleaned_data.get(SEEN, "").split())
        return Expected(tags) if tags else ANYTHING


class ReasonForm(forms.Form):
    """Why something is deleted."""

    reason = reason_field()


class ReasonedActionForm(ActionForm):
    """The action of a list, and its reason. The action itself checks for a reason, because Django answers an
    invalid form only with "no action selected"."""

    reason = forms.CharField(
        required=False,
        max_length=REASON_LENGTH,
        label="Why",
        widget=forms.TextInput(attrs={"size": 40, "placeholder": "kept in the audit trail"}),
    )
