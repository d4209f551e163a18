"""What the error pages of RESURGE_DEBUG=1 leave out, because they are copied into tickets."""

from __future__ import annotations

import re

from django.views.debug import SafeExceptionReporterFilter


class SecretsFilter(SafeExceptionReporterFilter):
    """Besides what Django hides, the addresses of servers, which may hold passwords."""

    hidden_settings = re.compile(
        f"{SafeExceptionReporterFilter.hidden_settings.pattern}|BROKER|CHANNEL_LAYERS|DATABASES|RESURGE", re.I
    )
