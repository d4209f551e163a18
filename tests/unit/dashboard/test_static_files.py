"""Static files: compressed, and kept for good where the address holds a hash."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from django.test import Client

from dashboard.assets import BUILT, app_module, asset_version, names_its_content
from dashboard.static_files import gzip_of

APP = f"/static/dashboard/{app_module()}"
STYLES = "/static/dashboard/app.css"


def body(answer: object) -> bytes:
    return b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def test_the_app_is_sent_compressed_and_kept_for_good(client: Client) -> None:
    answer = client.get(APP, headers={"Accept-Encoding": "gzip, br"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["Vary"]
    assert answer.headers["Content-Type"].startswith("text/javascript")
    assert answer.headers["Cache-Control"] == "max-age=31536000, public, immutable"
    packed = body(answer)
    assert gzip.decompress(packed) == (BUILT / app_module()).read_bytes()


def test_styles_of_this_build_are_kept_for_good(client: Client) -> None:
    answer = client.get(f"{STYLES}?v={asset_version()}")
    assert answer.headers["Cache-Control"] == "max-age=31536000, public, immutable"


@pytest.mark.parametrize("query", ["", "?v=of-another-build"])
def test_an_address_without_the_present_hash_is_kept_for_a_minute_only(client: Client, query: str) -> None:
    assert client.get(f"{STYLES}{query}").headers["Cache-Control"] == "max-age=60, public"


def test_every_module_of_a_page_names_its_content() -> None:
    """They import each other by name: with another address the same module would be loaded twice."""
    modules = {path.name for path in BUILT.glob("*.js")} - {"layout.js"}
    assert len(modules) > 5
    assert all(names_its_content(name) for name in modules)
    assert not names_its_content("/static/dashboard/layout.js")


def test_who_takes_no_gzip_gets_the_file_as_it_is(client: Client) -> None:
    answer = client.get(APP, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in answer.headers
    assert body(answer) == (BUILT / app_module()).read_bytes()


def test_fonts_are_kept_for_a_week(client: Client) -> None:
    font = "/static/dashboard/inter-latin-wght-normal.woff2"
    answer = client.get(font, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Cache-Control"] == "max-age=604800, public"
    assert "Content-Encoding" not in answer.headers


def test_a_copy_is_made_once_for_each_content(tmp_path: Path) -> None:
    file = tmp_path / "a.js"
    file.write_text("let a = 1;\n" * 500)
    first = gzip_of(file, tmp_path / "packed")
    assert first is not None
    assert gzip_of(file, tmp_path / "packed") == first
    file.write_text("let b = 2;\n" * 500)
    second = gzip_of(file, tmp_path / "packed")
    assert second not in (None, first)
    assert len(list((tmp_path / "packed").iterdir())) == 2
    file.write_text("let")
    assert gzip_of(file, tmp_path / "packed") is None
