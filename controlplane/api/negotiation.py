"""In which form an answer is given: by `format` where an address has several forms, else by `Accept`."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import DefaultContentNegotiation


class StrictNegotiation(DefaultContentNegotiation):
    def filter_renderers(self, renderers: list[Any], wanted: str) -> list[Any]:
        """An address with one form has no `format`, which its view says in the words of other parameters."""
        if len(renderers) == 1:
            return renderers
        found = [renderer for renderer in renderers if renderer.format == wanted]
        if not found:
            known = ", ".join(renderer.format for renderer in renderers)
            raise ValidationError({"format": [f"{wanted!r:.60} is none of {known}"]})
        return found
