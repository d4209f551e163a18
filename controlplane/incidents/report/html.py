"""The report as one HTML file that loads nothing: its style is inside, its policy permits only that."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from controlplane.incidents.report.contents import Document, report_of

STYLE = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
INSIDE = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
# This one means something in a header only.
POLICY = f"{INSIDE}; frame-ancestors 'none'"


def report_html(document: Document) -> str:
    # The style is a file of ours, and escaping it would change its hash.
    style = mark_safe(STYLE)  # noqa: S308
    context = {"report": report_of(document), "style": style, "policy": INSIDE}
    return str(render_to_string("incidents/report.html", context))
