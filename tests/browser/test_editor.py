"""Specifications are written and changed on a page, which checks them while they are typed."""

from __future__ import annotations

from typing import Any

from tests.browser.asking import audited, confirm, read
from tests.browser.conftest import enter
from tests.browser.servers import Server

TEXT = ".cm-content"
CHECK = "section[aria-label=Check]"


def test_a_new_version_is_checked_compared_and_saved(spare: Server, page: Any) -> None:
    enter(page, spare, "/editor/?topology=mentions")
    page.wait_for_selector(f"{CHECK}:has-text('valid')")
    save = page.locator("button:text-is('Save…')")
    assert save.is_disabled() or save.get_attribute("aria-disabled") == "true"
    before = page.locator(TEXT).inner_text()
    assert "kind: source" in before
    # A mistake has its line, a click goes there.
    page.locator(TEXT).fill(before.replace("kind: source", "kind: sorce", 1))
    problem = page.locator(f"{CHECK} button.problem:has-text('sorce')")
    problem.wait_for()
    line = 1 + before[: before.index("kind: source")].count("\n")
    assert f"line {line}" in problem.inner_text()
    page.wait_for_selector(".cm-lint-marker-error")
    # Corrected, and with another description, it can be saved.
    page.locator(TEXT).fill(before.replace("description: ", "description: Edited. ", 1))
    page.wait_for_selector(f"{CHECK}[aria-busy=false]:has-text('valid')")
    page.click("button:text-is('Show changes')")
    page.wait_for_selector(".cm-changedLine")
    page.reload()  # a draft survives that
    page.wait_for_selector(f"{TEXT}:has-text('Edited.')")
    page.wait_for_selector(f"{CHECK}[aria-busy=false]:has-text('valid')")
    page.click("button:text-is('Save…')")
    assert "new or changed" in page.locator("dialog[open]").inner_text()
    confirm(page, "a better description")
    page.wait_for_url("**/topologies/mentions/?tab=settings")
    found = read(page, spare, "topologies/mentions/specification/")
    assert found["version"] == 2
    assert "Edited." in found["text"]
    assert ("admin", "a better description") in audited(page, spare, "topology.update")


def test_what_runs_can_be_looked_at_but_not_saved(spare: Server, page: Any) -> None:
    enter(page, spare, "/editor/?topology=hashtags")
    page.wait_for_selector("main .note:has-text('undeploy it before you update it')")
    page.locator(TEXT).fill("name: hashtags\noperators: []\n")
    page.wait_for_selector(f"{CHECK}:has-text('problem')")
    page.click("button:text-is('Discard changes')")
    page.wait_for_selector(f"{CHECK}[aria-busy=false]:has-text('valid')")


def test_a_topology_is_created(spare: Server, page: Any) -> None:
    enter(page, spare, "/")
    page.click("a:text-is('New topology')")
    page.wait_for_selector(TEXT)
    page.get_by_label("Begin with").select_option("hashtags")
    page.wait_for_selector(f"{CHECK}[aria-busy=false]:has-text('There is a topology hashtags already')")
    text = read(page, spare, "pipelines/")
    written = next(one["text"] for one in text if one["name"] == "hashtags")
    page.locator(TEXT).fill(written.replace("name: hashtags", "name: second"))
    page.wait_for_selector(f"{CHECK}[aria-busy=false]:has-text('second')")
    page.click("button:text-is('Create…')")
    confirm(page, "another copy")
    page.wait_for_url("**/topologies/second/")
    page.wait_for_selector("button:text-is('Deploy')")
    assert read(page, spare, "topologies/second/")["version"] == 1


def test_words_are_completed(spare: Server, page: Any) -> None:
    enter(page, spare, "/editor/")
    content = page.locator(TEXT)
    content.fill("name: x\noperators:\n  - name: A\n    kind: sl")
    content.press("Control+End")
    content.press("Control+Space")
    page.click(".cm-tooltip-autocomplete li:has-text('sliding_window')")
    page.wait_for_selector(f"{TEXT}:has-text('kind: sliding_window')")


def test_what_is_typed_is_no_key_of_the_page(spare: Server, page: Any) -> None:
    enter(page, spare, "/editor/")
    page.locator(TEXT).click()
    look = """() => [location.href, document.documentElement.className, localStorage.getItem("resurge.theme"),
                     document.querySelectorAll("dialog[open]").length]"""
    before = page.evaluate(look)
    page.keyboard.type("kt? gn gi p")
    page.wait_for_selector(f"{TEXT}:has-text('kt? gn gi p')")
    assert page.evaluate(look) == before
    assert "Paused" not in page.locator(".freshness").inner_text()
