"""Serializers that take what they know and refuse the rest: a misspelt field must not go unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.filtering import NO_MOMENT, moment_of


class TextField(serializers.CharField):
    """A text and nothing that could be turned into one."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


@extend_schema_field(OpenApiTypes.DATETIME)
class MomentField(serializers.CharField):
    """A time with its offset, as filters take it."""

    def to_internal_value(self, data: Any) -> Any:
        text = str(super().to_internal_value(data))
        moment = moment_of(text)
        if moment is None:
            raise serializers.ValidationError(f"{text!r:.60} {NO_MOMENT}")
        return moment


class StrictSerializer(serializers.Serializer):
    """Refuses fields that it does not have."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(self.initial_data) - set(self.fields))
        if unknown:
            known = ", ".join(self.fields)
            raise serializers.ValidationError(
                dict.fromkeys(unknown, f"there is no such field; known: {known}")
            )
        return dict(super().validate(attrs))


class RefusalsField(serializers.DictField):
    """What `refusals_of` says of the row: the rules of the services, told before anything is asked for."""

    child = serializers.CharField()

    def __init__(self, refusals_of: Callable[[Any], dict[str, str]]) -> None:
        self._refusals_of = refusals_of
        super().__init__(
            source="*",
            read_only=True,
            help_text="action to why it is refused now; an action that is not named is permitted",
        )

    def to_representation(self, value: Any) -> dict[str, str]:
        return self._refusals_of(value)
