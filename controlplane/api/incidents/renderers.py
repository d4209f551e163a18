"""An exported incident as a readable report."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.renderers import BaseRenderer

from controlplane.api.renderers import json_write
from controlplane.incidents.report.html import report_html
from controlplane.incidents.report.markdown import report_markdown


class HtmlReportRenderer(BaseRenderer):
    media_type = "text/html"
    format = "html"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return report_html(_read(data)).encode()


class MarkdownReportRenderer(BaseRenderer):
    media_type = "text/markdown"
    format = "md"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return report_markdown(_read(data)).encode()


def _read(document: Any) -> Any:
    """Parts of it are JSON text that has not been parsed."""
    return msgspec.json.decode(json_write(document))
