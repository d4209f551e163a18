"""Headers for browsers: policies, cookies, transport; and Django's own checks of a deployment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from controlplane.topologies.models import Topology
from host.environment import ROOT
from tests.unit.controlplane.addresses import addresses
from tests.unit.controlplane.identities import identity
from tests.unit.controlplane.writes import installation_fill


class Inline(HTMLParser):
    """The parts of a page that a policy without ``unsafe-inline`` would block, or that come from another
    server."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or (
            tag == "script" and "src" not in given and "json" not in str(given.get("type"))
        ):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            foreign = name in {"src", "action"} or (name == "href" and tag == "link")
            if name == "style" or name.startswith("on") or (foreign and "//" in str(value)):
                self.found.append(f'<{tag} {name}="{value}">')


def pages() -> list[str]:
    """Every address that may be a page, as an administrator sees it."""
    places = {
        "object_id": "1",
        "content_type_id": "1",
        "app_label": "topologies",
        "url": "x",
        "path": "nodes/",
    }
    routes = [address for address in addresses() if not address.route.startswith("api/v1/")]
    known = {**places, "id": "1", "token_key": "x"}
    return [address.path(known) for address in routes if address.route != "metrics"] + ["/api/v1/docs/"]


def test_no_page_has_anything_inline_or_foreign(topology: Topology) -> None:
    installation_fill(topology)
    who = identity("administrator")
    seen = 0
    wrong = {}
    for path in pages():
        for client in (who.page, Client()):
            response = client.get(path)
            policy = response.headers["Content-Security-Policy"]
            assert "unsafe" not in policy, path
            assert "default-src 'none'" in policy, path
            assert "frame-ancestors 'none'" in policy, path
            assert "//" not in policy, path
            if response.headers["Content-Type"].startswith("text/html"):
                seen += 1
                reader = Inline()
                reader.feed(response.content.decode())
                if reader.found:
                    wrong[path] = reader.found
    assert not wrong
    assert seen > 50


def test_every_answer_has_its_headers(topology: Topology) -> None:
    who = identity("viewer")
    answers = [
        who.page.get("/"),
        who.page.get("/nowhere/"),
        who.program.get("/api/v1/topologies/"),
        who.program.get("/api/v1/nowhere/"),
        Client().get("/login/"),
        Client().get("/healthz"),
        Client().get("/api/v1/topologies/"),
        Client().get("/static/dashboard/app.css"),
    ]
    for answer in answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "camera=()" in answer.headers["Permissions-Policy"]
        assert answer.headers["Referrer-Policy"] == "same-origin"
    for answer in answers[2:4]:
        assert answer.headers["Cache-Control"] == "private, no-store"


def test_the_document_is_asked_for_once(topology: Topology) -> None:
    who = identity("viewer")
    for form, kind in (("", "application/vnd.oai.openapi"), ("?format=json", "openapi+json")):
        first = who.program.get(f"/api/v1/schema/{form}")
        assert kind in first["Content-Type"]
        again = who.program.get(f"/api/v1/schema/{form}", headers={"If-None-Match": first["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
    assert json.loads(first.content)["openapi"].startswith("3.")


SCRIPT = """
import json, django
django.setup()
from django.conf import settings
from django.test import Client
settings.ALLOWED_HOSTS.append("testserver")
plain, secure = Client().get("/login/"), Client().get("/login/", secure=True)
answer = {
    "redirect": plain.headers.get("Location", ""),
    "probe": Client().get("/healthz").status_code,
    "hsts": secure.headers.get("Strict-Transport-Security", ""),
    "session": settings.SESSION_COOKIE_SECURE,
    "csrf": [settings.CSRF_COOKIE_SECURE, secure.cookies["csrftoken"]["secure"]],
    "samesite": secure.cookies["csrftoken"]["samesite"],
}
print(json.dumps(answer))
"""


def installed(tmp_path: Path, *command: str, **variables: str) -> str:
    """The output of a command in a separate installation, without the tests' settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RESURGE_")}
    environment = {
        **kept,
        "RESURGE_HOME": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def told(tmp_path: Path, **variables: str) -> dict[str, Any]:
    lines = installed(tmp_path, "-c", SCRIPT, **variables).splitlines()
    answer: dict[str, Any] = next(json.loads(line) for line in lines if line.startswith("{"))
    return answer


def test_a_deployment_is_secure_by_default(tmp_path: Path) -> None:
    said = installed(tmp_path, "manage.py", "check", "--deploy", "--fail-level", "WARNING")
    assert re.search(r"no issues \(\d+ silenced\)", said)
    answer = told(tmp_path)
    assert answer["redirect"] == "https://testserver/login/"
    assert answer["probe"] == 200, "probes come from the host itself"
    assert answer["hsts"] == "max-age=31536000"
    assert answer["session"] is True
    assert answer["csrf"] == [True, True]
    assert answer["samesite"] == "Lax"


def test_a_demonstration_needs_no_certificate(tmp_path: Path) -> None:
    answer = told(tmp_path, RESURGE_HTTPS="0")
    assert (answer["redirect"], answer["hsts"], answer["session"]) == ("", "", False)


HOSTS = """
import json, django
django.setup()
from django.test import Client
hosts = ("127.0.0.1:8000", "resurge.example.org", "elsewhere.example.org")
codes = [Client(headers={"Host": host}).get("/healthz").status_code for host in hosts]
codes.append(Client(headers={"Host": hosts[0]}).get("/api/v1/me/", secure=True).status_code)
print(json.dumps({"codes": codes}))
"""


def test_processes_of_the_host_reach_a_server_that_has_another_name(tmp_path: Path) -> None:
    said = installed(tmp_path, "-c", HOSTS, RESURGE_ALLOWED_HOSTS="resurge.example.org")
    assert '{"codes": [200, 200, 400, 401]}' in said


@pytest.mark.django_db
def test_a_session_needs_its_csrf_token() -> None:
    who = identity("operator")
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = who.page.cookies
    body = {"reason": "x"}
    for path in ("/logout/", "/admin/logout/", "/api/v1/topologies/counts/deploy/"):
        assert strict.post(path, body, content_type="application/json").status_code == 403
    assert Client(enforce_csrf_checks=True).post("/login/", {"username": "x"}).status_code == 403
