"""Filters and ordering of lists: explicit, and what is not known is refused instead of ignored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import django_filters
from django import forms
from django.utils.dateparse import parse_datetime
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.request import Request

LONGEST_SEARCH = 200
"""Characters: each word is another condition for the database."""


def parameters_require(request: Request, known: Mapping[str, bool]) -> None:
    """Raise `ValidationError` for query parameters that mean nothing here: a misspelt filter would otherwise
    give everything. known: name to whether it may be repeated; of any other only the last value would
    count."""
    none = f"there is no such parameter; known: {', '.join(sorted(known)) or 'none'}"
    wrong = {
        name: ["give it once: it takes one value" if name in known else none]
        for name, values in sorted(request.query_params.lists())
        if name not in known or (len(values) > 1 and not known[name])
    }
    if wrong:
        raise ValidationError(wrong)


class ExplicitFilters(DjangoFilterBackend):
    """The filters of the view's ``filterset_class``; lists only."""

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        if (view.lookup_url_kwarg or view.lookup_field) in view.kwargs:
            return queryset
        empty = sorted(name for name, value in request.query_params.items() if not value)
        if empty:
            raise ValidationError({name: ["give it a value, or leave it out"] for name in empty})
        return super().filter_queryset(request, queryset, view)


def list_parameters(view: Any) -> dict[str, bool]:
    """What chooses and orders the rows of a list, and whether it may be repeated."""
    filterset = getattr(view, "filterset_class", None)
    filters = filterset.base_filters.items() if filterset else ()
    known = {name: isinstance(one, django_filters.MultipleChoiceFilter) for name, one in filters}
    known |= {"limit": False, "offset": False}
    known |= {"ordering": False} if getattr(view, "ordering_fields", None) else {}
    known |= {"search": False} if getattr(view, "search_fields", None) else {}
    return known


def asked_of(request: Request, parameters: type[serializers.Serializer]) -> dict[str, Any]:
    """What an address asks for, by a serializer of its parameters."""
    names = parameters().fields
    asked = parameters(data={name: value for name, value in request.query_params.items() if name in names})
    asked.is_valid(raise_exception=True)
    return dict(asked.validated_data)


class StrictOrdering(OrderingFilter):
    """``?ordering=-at,name``; a name that is not in the view's ``ordering_fields`` is refused.

    Rows that are equal by that come in the usual order of the list, and by their key in the end: without, a
    database may have them in another order for each page.
    """

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        asked = self.get_ordering(request, queryset, view) or ()
        return queryset.order_by(*asked, *queryset.query.order_by, "pk")

    def remove_invalid_fields(
        self, queryset: Any, fields: list[str], view: Any, request: Request
    ) -> list[str]:
        valid = super().remove_invalid_fields(queryset, fields, view, request)
        wrong = [field for field in fields if field not in valid]
        if wrong:
            known = ", ".join(view.ordering_fields)
            raise ValidationError({"ordering": [f"{name!r:.60} is none of {known}" for name in wrong]})
        return list(valid)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        names = ", ".join(f"`{name}`" for name in getattr(view, "ordering_fields", None) or ())
        return (
            [
                {
                    "name": "ordering",
                    "required": False,
                    "in": "query",
                    "description": f"one or several, separated by commas, descending with `-`: {names}",
                    "schema": {"type": "string"},
                }
            ]
            if names
            else []
        )


class BoundedSearch(SearchFilter):
    """``?search=``, of bounded length."""

    def get_search_terms(self, request: Request) -> list[str]:
        if len(request.query_params.get(self.search_param, "")) > LONGEST_SEARCH:
            raise ValidationError({self.search_param: [f"at most {LONGEST_SEARCH} characters"]})
        return list(super().get_search_terms(request))


def _refused(text: str, why: str) -> forms.ValidationError:
    """The value is a parameter of the message: a percent sign in it formats nothing."""
    return forms.ValidationError("%(value)s %(why)s", params={"value": f"{text!r:.60}", "why": why})


NO_MOMENT = "is not an ISO 8601 time with an offset or Z"


def moment_of(text: str) -> datetime | None:
    """The time that an address gives, ISO 8601 with an offset or ``Z``; None where it is none."""
    try:
        # A plus sign that was not escaped arrives as a space.
        moment = parse_datetime(text.replace(" ", "+"))
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):  # no such day; or, in UTC, before the first year or after the last
        pass
    return None


class MomentField(forms.CharField):
    """ISO 8601 with an offset or ``Z``: a time without one means another moment elsewhere."""

    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if value is None:
            return None
        moment = moment_of(text)
        if moment is None:
            raise _refused(text, NO_MOMENT)
        return moment


@extend_schema_field(OpenApiTypes.DATETIME)
class MomentFilter(django_filters.Filter):
    field_class = MomentField


def since(field: str) -> MomentFilter:
    return MomentFilter(field_name=field, lookup_expr="gte", label="at or after, ISO 8601")


def until(field: str) -> MomentFilter:
    return MomentFilter(field_name=field, lookup_expr="lt", label="before, ISO 8601")


def one_of(choices: Iterable[tuple[str, str]]) -> django_filters.MultipleChoiceFilter:
    """Rows with any of the values given; the parameter may be repeated."""
    return django_filters.MultipleChoiceFilter(choices=list(choices), distinct=False)


class WholeFilter(django_filters.NumberFilter):
    """A whole number within what a column holds."""

    field_class = forms.IntegerField

    def __init__(self, field_name: str | None = None, *, low: int = 0, high: int = 2**31 - 1, **more: Any):
        super().__init__(field_name=field_name, min_value=low, max_value=high, **more)
        said = {"description": str(more["label"])} if "label" in more else {}
        extend_schema_field({"type": "integer", "minimum": low, "maximum": high, **said})(self)


class FlagField(forms.CharField):
    def clean(self, value: Any) -> bool | None:
        text = super().clean(value).lower()
        if text not in {"", "true", "false"}:
            raise _refused(text, "is neither true nor false")
        return text == "true" if text else None


@extend_schema_field(OpenApiTypes.BOOL)
class FlagFilter(django_filters.Filter):
    """``true`` or ``false``."""

    field_class = FlagField
