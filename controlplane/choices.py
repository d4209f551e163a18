"""The base of the vocabularies: a class holds values and their labels, ``NAME = "value", "Label"``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    # Django publishes no types; this is what its enumeration offers, as far as we use it.
    class Choices(StrEnum):
        choices: ClassVar[list[tuple[str, str]]]
        values: ClassVar[list[str]]
        label: str

else:
    from django.db.models import TextChoices as Choices

__all__ = ["Choices"]
