"""Pages for errors: what those of RESURGE_DEBUG=1 leave out, because they are copied into tickets, and what a
database that takes nothing now is answered with."""

from __future__ import annotations

import re
import sys

from django.http import HttpRequest, HttpResponse
from django.views.debug import SafeExceptionReporterFilter
from django.views.defaults import server_error as django_server_error

from controlplane.errors import BUSY, DATABASE_AWAY, RETRY_AFTER


def server_error(request: HttpRequest) -> HttpResponse:
    """The answer where an exception was not handled, in a view or in a middleware."""
    if isinstance(sys.exc_info()[1], DATABASE_AWAY):
        return HttpResponse(
            f"{BUSY}\n",
            status=503,
            content_type="text/plain; charset=utf-8",
            headers={"Retry-After": str(RETRY_AFTER)},
        )
    return django_server_error(request)


class SecretsFilter(SafeExceptionReporterFilter):
    """Besides what Django hides, the addresses of servers, which may hold passwords."""

    hidden_settings = re.compile(
        f"{SafeExceptionReporterFilter.hidden_settings.pattern}|BROKER|CHANNEL_LAYERS|DATABASES|RESURGE", re.I
    )
