"""Debian's Chromium, quiet: no background traffic, nothing installed by playwright.

Its build without windows: in the other one, started headless, pages now and then stop drawing, and their
timers with them, for as long as two processors are busy with something else.
"""

from __future__ import annotations

from typing import Any

LAUNCH: dict[str, Any] = {
    "executable_path": "/usr/bin/chromium-headless-shell",
    "args": [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ],
}


def sign_in(page: Any, url: str, user: str, password: str) -> None:
    """Through the login form, as a person does."""
    page.goto(f"{url}/login/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_selector("header nav")
