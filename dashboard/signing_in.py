"""The sign-in page, and the answer after too many wrong passwords."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.accounts.guessing import client_of, password_turn
from controlplane.api.throttling import anonymous_take

TEMPLATE = "registration/login.html"


def client_address(request: HttpRequest) -> str | None:
    """By what a client is locked out (``AXES_CLIENT_IP_CALLABLE``)."""
    return client_of(request.META.get("REMOTE_ADDR", "")) or None


class SignInForm(AuthenticationForm):
    def clean(self) -> Any:
        with password_turn(self.cleaned_data.get("username"), self.request.META.get("REMOTE_ADDR", "")):
            return super().clean()


class SignIn(LoginView):
    """Sign in with a name and a password; after too many attempts an address has to wait."""

    form_class = SignInForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait = anonymous_take(request.META.get("REMOTE_ADDR", ""))
        if wait:
            return _refused(request, "Too many attempts from this address.", wait)
        response: HttpResponse = super().post(request, *args, **kwargs)
        return response


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: Mapping[str, Any] | None = None
) -> HttpResponse:
    """The answer to attempts beyond the limit (``AXES_LOCKOUT_CALLABLE``); each one restarts the wait."""
    wait: timedelta = settings.AXES_COOLOFF_TIME
    return _refused(request, "Too many wrong passwords for this user from here.", wait.total_seconds())


def _refused(request: HttpRequest, what: str, wait: float) -> HttpResponse:
    seconds = math.ceil(wait)
    when = f"{seconds} seconds" if seconds < 120 else f"{math.ceil(seconds / 60)} minutes"
    context = {
        "form": AuthenticationForm(request),
        "refusal": f"{what} Try again in {when}.",
        "next": request.POST.get("next", ""),
    }
    response = render(request, TEMPLATE, context, status=429)
    response.headers["Retry-After"] = str(seconds)
    return response
