"""The OpenAPI document and its interactive form."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.preconditions import is_current, not_modified
from controlplane.preconditions import entity_tag


@cache
def _document() -> tuple[dict[str, Any], str]:
    """The document, generated once per process, and its tag."""
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    document = generator.get_schema(request=None, public=True)
    return document, entity_tag(document)


class SchemaView(SpectacularAPIView):
    """The OpenAPI document of this interface, as YAML or JSON."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        document, tag = _document()
        # One document, two forms: each has a tag of its own.
        tag = f'{tag[:-1]}-{request.accepted_renderer.format}"'
        if is_current(request, tag):
            return not_modified(tag)
        return Response(document, headers={"ETag": tag, "Cache-Control": "private, no-cache"})


class DocumentationView(SpectacularSwaggerSplitView):
    """Swagger UI from files of this server, without anything inline in the page."""

    template_name = "api/docs.html"

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        return response

    def handle_exception(self, exc: Exception) -> HttpResponse:
        if isinstance(exc, NotAuthenticated) and not self.request.auth:
            return redirect_to_login(self.request.get_full_path())
        response: HttpResponse = super().handle_exception(exc)
        return response
