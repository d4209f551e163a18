"""Actions on pages, and requests to the server behind them, for tests."""

from __future__ import annotations

from typing import Any

from tests.browser.servers import Server

CHANGE = """async ({path, body}) => {
  const token = /csrftoken=([^;]+)/.exec(document.cookie)[1];
  const headers = {"Content-Type": "application/json", "X-CSRFToken": token};
  const answer = await fetch(path, {method: "PATCH", headers, body: JSON.stringify(body)});
  return answer.status;
}"""


def confirm(page: Any, reason: str) -> None:
    """Fill in the reason in the dialog that is open, its last field, and send it."""
    dialog = page.locator("dialog[open]")
    dialog.locator("textarea").last.fill(reason)
    dialog.locator("button[type=submit]").click()


def requests_of(page: Any, method: str) -> list[Any]:
    """The requests that the page sends from now on."""
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request) if request.method == method else None)
    return sent


def act(page: Any, button: str, reason: str) -> Any:
    """Press, give a reason, and follow the operation to its end; returns the request."""
    sent = requests_of(page, "POST")
    page.click(f"main button:text-is('{button}')")
    confirm(page, reason)
    page.wait_for_selector(".notice:has-text('Succeeded')")
    page.click(".notice button")
    assert len(sent) == 1
    assert sent[0].headers["idempotency-key"]
    return sent[0]


def read(page: Any, server: Server, path: str) -> Any:
    """What REST answers to the user who is signed in on the page."""
    return page.request.get(f"{server.url}/api/v1/{path}").json()


def audited(page: Any, server: Server, action: str) -> list[tuple[str, str]]:
    return [(row["actor"], row["reason"]) for row in read(page, server, f"audit/?action={action}")["results"]]


def change(page: Any, path: str, body: dict[str, Any]) -> None:
    """A REST call with the page's session, without the page."""
    assert page.evaluate(CHANGE, {"path": f"/api/v1/{path}", "body": body}) == 200


def set_priority(page: Any, query: str, value: int, reason: str = "measuring") -> None:
    path = f"topologies/hashtags/queries/{query.replace('[', '%5B').replace(']', '%5D')}/"
    change(page, path, {"priority": value, "reason": reason})


def sideways(page: Any) -> int:
    """How far the page scrolls sideways, in pixels; it must be 0."""
    width = page.viewport_size["width"]
    return int(page.evaluate("() => document.documentElement.scrollWidth")) - int(width)


def refuses(page: Any, button: Any, why: str) -> None:
    """Check that the button is disabled, says why, and opens no dialog."""
    button.hover()
    page.wait_for_selector(f'.why.shown:has-text("{why}")')
    button.click(force=True)
    assert page.locator("dialog[open]").count() == 0
