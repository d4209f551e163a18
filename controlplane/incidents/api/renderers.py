"""An exported incident as a readable report."""

from __future__ import annotations

from typing import Any

from rest_framework.renderers import BaseRenderer

from controlplane.incidents.report.html import report_html
from controlplane.incidents.report.markdown import report_markdown


class HtmlReportRenderer(BaseRenderer):
    media_type = "text/html"
    format = "html"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return report_html(data).encode()


class MarkdownReportRenderer(BaseRenderer):
    media_type = "text/markdown"
    format = "md"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return report_markdown(data).encode()
