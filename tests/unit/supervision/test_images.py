"""Container images are named by digest: the same files, whatever their tags name later."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from host.environment import ROOT

PINNED = re.compile(r"[a-z]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}")
DOCKER = ROOT / "docker"


def test_every_image_that_is_not_built_here_has_a_digest() -> None:
    lines = (DOCKER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    images = [line.split()[1] for line in lines if line.startswith("FROM ")]
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))["services"].values()
    images += [service["image"] for service in services if "build" not in service]
    assert len(images) > 3
    assert [image for image in images if not PINNED.fullmatch(image)] == []


def test_the_image_has_what_checkpoints_in_s3_need() -> None:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    copied = {word for line in text.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]}
    installed = set(re.findall(r"--requirement (\S+)", text))
    assert installed == {"requirements/runtime.txt", "requirements/s3.txt"}
    assert installed <= copied
    assert all((ROOT / name).is_file() for name in installed)


def test_the_container_gets_the_credentials_of_every_storage_of_checkpoints() -> None:
    text = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    named = set(re.findall(r"AWS_[A-Z_]+|RESURGE_CHECKPOINTS\w*", text))
    assert len(named) == 5
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert named <= services["resurge"]["environment"].keys()


def test_zookeeper_takes_as_many_connections_from_the_container_as_come() -> None:
    """Those of all nodes and drivers come from one address."""
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert services["zookeeper"]["environment"]["ZOO_MAX_CLIENT_CNXNS"] == "0"


@pytest.mark.parametrize("status", [200, 503])
def test_the_health_check_asks_the_server_itself(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker gives containers the proxies of its configuration, which do not reach 127.0.0.1 there."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"HEALTHCHECK .*\\\n\s+CMD (\[.*\])", text)
    assert found is not None
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        _, *arguments = json.loads(found[1].replace("8000", str(server.server_port)))
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        asked = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False)
    assert (asked.returncode == 0) is (status == 200)
