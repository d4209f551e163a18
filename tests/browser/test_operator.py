"""The panel of an operator in a real browser: its tabs, and what each role is shown."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.executor.samples import sample_keep
from spark_jobs.state.sample_files import wanted_path
from tests.browser.asking import read
from tests.browser.conftest import enter
from tests.browser.servers import Server

pytestmark = pytest.mark.browser

TEXT = "timestamp='2026-01-01T08:00:0{}.000000Z' level='{}' logger='x' event='{}'\n"


def opened(page: Any, tab: str) -> None:
    page.click(f"aside.panel [role=tab]:has-text('{tab}')")


def test_configuration_is_shown_and_linked(healthy: Server, page: Any) -> None:
    enter(page, healthy, "/topologies/hashtags/?operator=O3", user="viewer")
    opened(page, "Configuration")
    page.wait_for_selector("section[aria-label=Parameters] tr:has-text('slide_s') td:text-is('20')")
    assert "panel=configuration" in page.url
    columns = page.locator("section[aria-label='Rows that it gives'] tbody td:first-child").all_inner_texts()
    assert columns == ["window_start", "window_end", "key", "count"]
    page.wait_for_selector("section[aria-label='Rows from Parser']")


def test_the_log_follows_and_is_filtered(healthy: Server, page: Any) -> None:
    log = healthy.home / "log" / "driver.hashtags.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(TEXT.format(1, "info", "first") + TEXT.format(2, "error", "second"))
    enter(page, healthy, "/topologies/hashtags/?operator=O3&panel=log", user="operator")
    page.wait_for_selector("aside .lines :text('first')")
    with log.open("a") as file:
        file.write(TEXT.format(3, "warning", "third"))
    page.wait_for_selector("aside .lines :text('third')")
    page.select_option("aside select[aria-label=Level]", "error")
    page.wait_for_selector("aside .lines :text('third')", state="detached")
    assert page.locator("aside .lines .line").count() == 1
    page.fill("aside input[type=search]", "nothing has it")
    page.wait_for_selector("aside :text('matches this filter')")


def test_rows_are_kept_while_they_are_looked_at(healthy: Server, page: Any) -> None:
    partitions = read_rows(page, healthy)
    node = healthy.home / "nodes" / partitions["Parser[1]"]
    node.mkdir(parents=True, exist_ok=True)
    enter(page, healthy, "/topologies/hashtags/?operator=Parser&panel=rows&partition=1", user="operator")
    page.wait_for_selector("aside .origin:has-text('Requested')")
    assert wanted_path(node, "hashtags", "Parser[1]").exists()
    sample_keep(node, "hashtags", "Parser[1]", 7, pa.table({"ts": pa.array([1]), "key": ["seen"]}))
    page.wait_for_selector("aside td:text-is('seen')")
    page.wait_for_selector("aside .origin:has-text('1 row of epoch 7')")


def read_rows(page: Any, server: Server) -> dict[str, str]:
    enter(page, server, user="operator")
    found = read(page, server, "topologies/hashtags/partitions/?operator=Parser")["results"]
    return {row["partition"]: row["node"] for row in found}


def test_viewers_see_neither_rows_nor_logs(healthy: Server, page: Any) -> None:
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    for tab in ("rows", "log"):
        enter(page, healthy, f"/topologies/hashtags/?operator=O3&panel={tab}", user="viewer")
        page.wait_for_selector("aside :text('Not shown to viewers')")
    assert not [url for url in asked if url.endswith(("/rows/", "/log/")) or "/log/?" in url]
