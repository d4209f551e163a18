"""What the address of a list may ask for: what the filters on the page offer, and nothing else."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.http import HttpRequest

from controlplane.topologies.models import Topology
from tests.examples import examples
from tests.unit.controlplane.administration.conftest import ROLES
from tests.unit.controlplane.administration.test_pages import Browser, base, by_model

_LOOKUPS = ("regex", "iregex", "startswith", "contains", "lte", "range", "in")
_FILTER_LINKS = re.compile(r'href="(\?[^"]+)"')


def _columns(model: Any, within: str = "", depth: int = 2) -> list[str]:
    """Every column that can be reached from the model, through as many as `depth` relations."""
    found: list[str] = []
    for field in model._meta.get_fields():
        found.append(f"{within}{field.name}")
        if depth and field.related_model is not None:
            found += _columns(field.related_model, f"{within}{field.name}__", depth - 1)
    return found


@by_model
def test_no_list_takes_a_regular_expression_or_another_lookup(rf: Any, model: Any, page: Any) -> None:
    request: HttpRequest = rf.get("/")
    refused = [f"{column}__{how}" for column in _columns(model) for how in _LOOKUPS]
    some = refused[:: len(refused) // examples(len(refused))]  # of each column two or three
    assert [lookup for lookup in some if page.lookup_allowed(lookup, "x", request)] == []


@by_model
def test_a_list_answers_a_regular_expression_with_400(
    browser: Browser, everything: Topology, model: Any, page: Any
) -> None:
    column = next(field.name for field in model._meta.get_fields() if field.concrete)
    address = f"{base(model)}?{column}__regex=(a%2B)%2B%24"
    assert browser("administrator").get(address).status_code == 400


def test_a_viewer_asks_for_the_reason_by_a_regular_expression(browser: Browser, everything: Topology) -> None:
    viewer = browser("viewer")
    for page in ("events/auditentry", "events/event", "events/operation", "topologies/topologyversion"):
        assert viewer.get(f"/admin/{page}/?reason__regex=x").status_code == 400, page


@by_model
def test_every_filter_that_a_page_offers_works(
    browser: Browser, everything: Topology, model: Any, page: Any
) -> None:
    client = browser(ROLES[-1])
    first = client.get(base(model))
    links = {html.unescape(link) for link in _FILTER_LINKS.findall(first.content.decode())}
    if page.list_filter or page.date_hierarchy:
        assert links
    for link in links:
        answer = client.get(base(model) + link)
        assert answer.status_code == 200, link


@pytest.mark.parametrize("column", ["at", "created_at"])
def test_the_steps_of_the_dates_work(browser: Browser, everything: Topology, column: str) -> None:
    lists = [model for model, page in admin.site._registry.items() if page.date_hierarchy == column]
    assert lists
    for model in lists:
        for asked in (f"{column}__year=2026", f"{column}__year=2026&{column}__month=1&{column}__day=2"):
            assert browser("administrator").get(f"{base(model)}?{asked}").status_code == 200


def test_an_action_on_what_is_no_row_is_answered_with_400(browser: Browser, everything: Topology) -> None:
    offered = {model: page.actions[0] for model, page in admin.site._registry.items() if page.actions}
    assert offered
    for model, action in offered.items():
        for row in ("x", "9" * 30, "\x00"):
            asked = {"action": action, "_selected_action": row, "index": "0", "reason": "test"}
            assert browser("administrator").post(base(model), asked).status_code == 400, (model, row)


EXTREMES = ("9999", "9223372036854775808", "1" + "0" * 400, "0001-01-01 00:00:00+23:59", "\x00", "a " * 1_500)


@by_model
def test_what_a_list_is_asked_for_may_be_extreme(
    browser: Browser, everything: Topology, model: Any, page: Any
) -> None:
    asked = ["p", "o", "q", *(lookup for name in page.list_filter for lookup in (name, f"{name}__exact"))]
    asked += [f"{name}__id__exact" for name in page.list_filter]
    asked += [f"{page.date_hierarchy}__{how}" for how in ("gte", "year", "day") if page.date_hierarchy]
    client = browser("administrator")
    for name in asked:
        for text in EXTREMES:
            answer = client.get(base(model), {name: text})
            assert answer.status_code in (200, 302, 400), (name, text[:50])
    for text in EXTREMES:
        for rest in ("change", "history"):
            path = f"{base(model)}{quote(text)}/{rest}/"
            assert client.get(path).status_code in (302, 400, 403, 404), path
