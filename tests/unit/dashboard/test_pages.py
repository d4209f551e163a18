"""The page shell, the login page, their headers, and the built assets."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.staticfiles import finders
from django.template.loader import get_template
from django.test import Client

from controlplane.topologies.models import Topology
from dashboard.assets import BUILT, built_hash

FRONTEND = BUILT.parents[1] / "frontend"
CONFIGURATION = (
    "package-lock.json",
    "package.json",
    "svelte.config.js",
    "vite.config.ts",
    "vite.worker.config.ts",
    "scripts/stamp.mjs",
)


def sources_hash(frontend: Path = FRONTEND) -> str:
    """Hash of the names and contents of all files that a build reads; scripts/stamp.mjs computes the same."""
    paths = [path for path in (frontend / "src").rglob("*") if path.is_file()]
    paths += [frontend / name for name in CONFIGURATION]
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.relative_to(frontend).as_posix()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(frontend).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def test_the_built_assets_are_current() -> None:
    assert built_hash() == sources_hash(), (
        "dashboard/frontend has changed since the last build: run `npm ci && npm run build` there"
    )


def test_a_changed_source_is_noticed(tmp_path: Path) -> None:
    for path in [*(FRONTEND / "src").rglob("*"), *FRONTEND.glob("*.*"), *(FRONTEND / "scripts").iterdir()]:
        if path.is_file():
            copy = tmp_path / path.relative_to(FRONTEND)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    assert sources_hash(tmp_path) == sources_hash()
    (tmp_path / "src" / "main.ts").write_text("// changed")
    assert sources_hash(tmp_path) != sources_hash()


def test_the_lock_file_names_no_registry() -> None:
    lock = (FRONTEND / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "http" not in re.sub(r'"(url|funding)": "[^"]*"', "", lock)


PLAN = "/api/v1/topologies/hashtags/replication-plan/"


@pytest.mark.parametrize(
    ("path", "early"),
    [
        ("/", []),
        ("/topologies/hashtags/", []),
        ("/topologies/hashtags/?tab=replication", [PLAN]),
        ("/topologies/hashtags/?tab=replication&budget=3", []),
        ("/topologies/a%22%3E%3Cscript/?tab=replication", []),
        ("/nodes/?tab=replication", []),
    ],
)
@pytest.mark.django_db
def test_what_a_page_needs_is_asked_for_while_it_loads(
    path: str, early: list[str], admin_client: Client
) -> None:
    text = admin_client.get(path).content.decode()
    assert preloaded(text) == ["/api/v1/snapshot/", *early]


@pytest.mark.django_db
def test_no_plan_is_asked_for_where_no_replica_can_run(admin_client: Client) -> None:
    Topology.objects.create(name="hashtags", guarantee="bounded")
    text = admin_client.get("/topologies/hashtags/?tab=replication").content.decode()
    assert preloaded(text) == ["/api/v1/snapshot/"]


def preloaded(text: str) -> list[str]:
    return re.findall(r'<link rel="preload" as="fetch" href="([^"]*)" crossorigin>', text)


PAGES = [
    "/",
    "/topologies/hashtags/",
    "/topologies/x/?tab=errors",
    "/nodes/",
    "/incidents/3/",
    "/what-if/?racks=b",
    "/checkpoints/?checkpoint=hashtags/5220",
    "/audit/?entry=7",
    "/faults/",
    "/settings/?tab=tokens",
]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.django_db
def test_every_page_is_the_shell(path: str, admin_client: Client) -> None:
    response = admin_client.get(path)
    assert response.status_code == 200
    text = response.content.decode()
    found = re.search(r'<script id="boot" type="application/json">(.*?)</script>', text, re.S)
    assert found
    boot = json.loads(found[1])
    assert (boot["user"], boot["role"]) == ("admin", "administrator")
    for address in re.findall(r'(?:src|href)="/static/([^"?]+)', text):
        assert finders.find(address), address
    assert "no-store" in response.headers["Cache-Control"]


@pytest.mark.django_db
def test_signing_in_and_being_refused_share_their_head(client: Client) -> None:
    entrance = client.get("/login/")
    client.force_login(User.objects.create_user("roleless"))
    refused = client.get("/")
    assert (entrance.status_code, refused.status_code) == (200, 403)
    pages = [response.content.decode() for response in (entrance, refused)]
    heads = [re.sub("<title>.*</title>", "", page.partition("<h1>")[0]) for page in pages]
    assert heads[0] == heads[1]
    assert heads[0].startswith("<!doctype html>")
    assert "login.css" in heads[0]
    assert ["Sign in – Resurge" in pages[0], "Not permitted – Resurge" in pages[1]] == [True, True]


@pytest.mark.django_db
def test_the_policy_permits_nothing_inline_and_nothing_foreign(admin_client: Client) -> None:
    for response in (admin_client.get("/"), Client().get("/login/"), admin_client.get("/admin/")):
        policy = response.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "//" not in policy
        assert "default-src 'none'" in policy
    page = admin_client.get("/").content.decode() + Client().get("/login/").content.decode()
    assert not re.search(r"\sstyle=|\son\w+=|<style", page)
    assert set(re.findall(r"<script[^>]*>", page)) == {
        tag for tag in re.findall(r"<script[^>]*>", page) if "src=" in tag or "application/json" in tag
    }


@pytest.mark.django_db
def test_nothing_without_signing_in() -> None:
    for path in ("/", "/topologies/hashtags/", "/nodes/", "/incidents/1/"):
        response = Client().get(path)
        assert response.status_code == 302
        assert response.headers["Location"].startswith("/login/?next=")


@pytest.mark.django_db
def test_signing_in_and_out() -> None:
    viewers, _ = Group.objects.get_or_create(name="viewer")
    User.objects.create_user("ann", password="a-long-one").groups.add(viewers)
    ann = {"username": "ann", "password": "a-long-one"}
    client = Client()
    wrong = client.post("/login/", {"username": "ann", "password": "wrong"})
    assert b'role="alert"' in wrong.content
    assert client.post("/login/", {**ann, "next": "/nodes/"}).headers["Location"] == "/nodes/"
    assert b'"role": "viewer"' in client.get("/").content
    assert client.post("/logout/").status_code == 302
    assert client.get("/").status_code == 302
    assert client.post("/login/", {**ann, "next": "https://evil.example/"}).headers["Location"] == "/"


@pytest.mark.django_db
def test_names_are_escaped_in_the_page(client: Client) -> None:
    client.force_login(User.objects.create_superuser("</script><script>alert(1)</script>"))
    assert b"<script>alert" not in client.get("/").content


def test_the_worker_that_lays_out_graphs_is_served() -> None:
    assert b"onmessage" in (BUILT / "layout.js").read_bytes()


@pytest.mark.parametrize("path", ["/no/such/page", "/topology/hashtags", "/static/dashboard/missing.js"])
def test_an_address_without_a_page_has_a_page_that_says_so(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    page = answer.content.decode()
    for part in ("login.css", "Page not found", f"<b>{path}</b>", 'href="/"'):
        assert part in page


@pytest.mark.parametrize("name", ["400.html", "403_csrf.html", "500.html"])
def test_other_refusals_have_a_page_too(name: str) -> None:
    page = get_template(name).render()
    assert "login.css" in page
    assert 'href="/"' in page
