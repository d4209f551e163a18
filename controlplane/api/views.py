"""What all views of REST have in common: they refuse what they do not know in a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from controlplane.api.filtering import list_parameters, parameters_require


class RestView(APIView):
    """Takes the query parameters that the handler declares with `extend_schema`, and no other."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        handler = getattr(self, getattr(self, "action", None) or str(request.method).lower(), None)
        if request.query_params and handler is not None:  # else the method is not allowed
            parameters_require(request, self.parameters_known(request, handler))

    def parameters_known(self, request: Request, handler: Any) -> dict[str, bool]:
        """By name, whether it may be repeated."""
        return dict(self._declared(handler))

    def _declared(self, handler: Any) -> Iterator[tuple[str, bool]]:
        made = getattr(handler, "kwargs", {}).get("schema")
        if made is None:
            return
        schema = made()
        schema.view = self
        for declared in schema.get_override_parameters():
            if not isinstance(declared, OpenApiParameter):
                for name, field in declared().fields.items():
                    yield name, isinstance(field, serializers.ListField)
            elif declared.location == OpenApiParameter.QUERY:
                yield declared.name, False


class RestViewSet(RestView, GenericViewSet):
    """Lists also take their filters, order and page."""

    def parameters_known(self, request: Request, handler: Any) -> dict[str, bool]:
        known = super().parameters_known(request, handler)
        listed = request.method in ("GET", "HEAD") and self.paginator is not None
        return known | list_parameters(self) if listed and self.action != "retrieve" else known
