"""The OpenAPI document and its interactive form."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpResponse
from drf_spectacular.contrib.django_filters import DjangoFilterExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiParameter, extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.preconditions import is_current, not_modified
from controlplane.api.views import RestView
from controlplane.preconditions import entity_tag

# No filter is about places on a map. Without this the first document of a process would look for the library
# that reads maps, by starting ldconfig and compilers: 180 programs.
setattr(DjangoFilterExtension, "_has_gis", False)  # noqa: B010 - it is declared nowhere


@cache
def _document(form: Any) -> tuple[bytes, str]:
    """The document as one of the renderers gives it, made once per process, and its tag."""
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    content = form().render(generator.get_schema(request=None, public=True), form.media_type, {})
    return content, entity_tag(content.decode())


FORMAT = OpenApiParameter("format", description="instead of an Accept header")


class SchemaView(RestView, SpectacularAPIView):
    """The OpenAPI document of this interface, as YAML or JSON."""

    @extend_schema(exclude=True, parameters=[FORMAT])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        form: Any = type(request.accepted_renderer)
        content, tag = _document(form)
        if is_current(request, tag):
            return not_modified(tag)
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        return HttpResponse(content, content_type=form.media_type, headers=headers)


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
