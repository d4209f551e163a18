"""Debian's Chromium, quiet: no background traffic, nothing installed by playwright."""

from __future__ import annotations

from typing import Any

LAUNCH: dict[str, Any] = {
    "executable_path": "/usr/bin/chromium",
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
