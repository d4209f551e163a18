"""What a developer's error pages (RESURGE_DEBUG=1) leave out: they end up in tickets."""

from __future__ import annotations

import re

from django.views.debug import SafeExceptionReporterFilter


class SecretsFilter(SafeExceptionReporterFilter):
    """Besides what Django hides, the addresses of servers, which may hold passwords."""

    hidden_settings = re.compile(
        f"{SafeExceptionReporterFilter.hidden_settings.pattern}|BROKER|CHANNEL_LAYERS|DATABASES|RESURGE", re.I
    )
