"""Bases of the vocabularies: one class holds value, label and (for states) colour.

A plain member is written ``NAME = "value", "Label"``, a state ``NAME = "value",
"colour", "Label"``. Colours are names the dashboard maps to its (colour-blind
safe) palette; the sets of states that matter to the code stand beside each class
as module constants.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    # Django publishes no types; this is what its enumeration offers, as far as we use it.
    class Choices(StrEnum):
        choices: ClassVar[list[tuple[str, str]]]
        values: ClassVar[list[str]]
        label: str

    class ColouredChoices(Choices):
        colour: str

        @classmethod
        def described(cls) -> list[dict[str, Any]]: ...

else:
    from django.db.models import TextChoices as Choices

    class ColouredChoices(Choices):
        def __new__(cls, value, colour):
            member = str.__new__(cls, value)
            member._value_ = value
            member.colour = colour
            return member

        @classmethod
        def described(cls):
            """``[{"value", "label", "colour"}, ...]`` for a legend."""
            return [
                {"value": member.value, "label": str(member.label), "colour": member.colour} for member in cls
            ]


__all__ = ["Choices", "ColouredChoices"]
