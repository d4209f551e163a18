"""The HTTP request, against a real server with all kinds of faults."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from typing import Any

import pytest

from controlplane.webhooks.posting import EXCERPT, Outcome, webhook_post
from tests.unit.controlplane.webhooks.receiver import (
    LOOPBACK,
    Answer,
    Receiver,
    close,
    drip,
    endless,
    hang,
    slow_body,
    with_headers,
)

HERE = (ipaddress.ip_network(f"{LOOPBACK}/32"),)


def post(url: str, *, deadline: float = 5.0, networks: Any = HERE) -> Outcome:
    return webhook_post(url, headers={"x-test": "1"}, body=b"{}", networks=networks, deadline=deadline)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_a_success(receiver: Receiver, status: int) -> None:
    receiver.answers = [with_headers(status)]
    outcome = post(receiver.url)
    assert (outcome.status, outcome.error) == (status, "")
    assert receiver.got[0].body == b"{}"
    assert receiver.got[0].headers["x-test"] == "1"


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
def test_other_answers_are_failures(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    outcome = post(receiver.url)
    assert (outcome.status, outcome.error) == (status, f"answered {status}")
    assert outcome.excerpt == f"answer {status}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    with Receiver() as elsewhere:
        receiver.answers = [with_headers(status, location=elsewhere.url)]
        outcome = post(receiver.url)
        assert "redirects are not followed" in outcome.error
        assert elsewhere.got == []


@pytest.mark.parametrize("answer", [hang, drip])
def test_everything_has_one_deadline(receiver: Receiver, answer: Answer) -> None:
    receiver.answers = [answer]
    started = time.monotonic()
    outcome = post(receiver.url, deadline=0.4)
    assert outcome.error == "no answer within 0.4 s"
    assert outcome.status is None
    assert time.monotonic() - started < 3.0


def test_a_body_that_does_not_end_is_cut(receiver: Receiver) -> None:
    receiver.answers = [endless]
    outcome = post(receiver.url)
    assert (outcome.status, outcome.error, outcome.excerpt) == (200, "", "x" * EXCERPT)


def test_the_status_counts_where_the_body_does_not_come(receiver: Receiver) -> None:
    receiver.answers = [slow_body]
    outcome = post(receiver.url, deadline=0.4)
    assert (outcome.status, outcome.error, outcome.excerpt) == (200, "", "so far")


def test_a_connection_that_is_closed_or_refused(receiver: Receiver) -> None:
    receiver.answers = [close]
    assert "disconnected" in post(receiver.url).error
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        assert "ConnectError" in post(f"http://{LOOPBACK}:{free.getsockname()[1]}/").error


def test_what_the_answer_holds_can_be_stored(receiver: Receiver) -> None:
    receiver.answers = [lambda handler: handler.reply(500, b"\xff\x00\xfe text")]
    assert post(receiver.url).excerpt == "\ufffd\ufffd\ufffd text"


def test_the_time_a_receiver_asks_for(receiver: Receiver) -> None:
    for value, seconds in {"120": 120.0, "soon": None, "Fri, 31 Dec 1999 23:59:59 GMT": None}.items():
        receiver.answers = [with_headers(503, retry_after=value)]
        assert post(receiver.url).retry_after == seconds


def test_tls_that_fails_is_a_failure(receiver: Receiver) -> None:
    outcome = post(receiver.url.replace("http:", "https:"))
    assert outcome.error
    assert receiver.got == []


@pytest.mark.parametrize("host", [LOOPBACK, "localhost", "127.1", "0x7f.1", "2130706433"])
def test_a_private_address_gets_no_packet(receiver: Receiver, host: str) -> None:
    outcome = post(f"http://{host}:{receiver.port}/", networks=())
    assert "RESURGE_WEBHOOK_NETWORKS" in outcome.error
    assert receiver.got == []


def test_a_name_is_resolved_once_and_only_its_permitted_addresses_are_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        asked.append(host)
        found = ["169.254.169.254", LOOPBACK] if len(asked) == 1 else ["169.254.169.254"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = post(f"http://rebinding.example:{receiver.port}/")
    assert outcome.succeeded
    assert receiver.got[0].headers["host"] == f"rebinding.example:{receiver.port}"
    assert asked.count("rebinding.example") == 1
    assert "metadata service" in post(f"http://rebinding.example:{receiver.port}/").error
    assert len(receiver.got) == 1


@pytest.mark.parametrize("found", ["169.254.169.254", "fd00:ec2::254", "100.100.100.200"])
def test_the_name_of_a_metadata_service_gets_no_packet(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        family = socket.AF_INET6 if ":" in found else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (found, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    everything = [ipaddress.ip_network(network) for network in ("0.0.0.0/0", "::/0")]
    outcome = post("http://metadata.google.internal/", networks=everything, deadline=1.0)
    assert outcome.error == f"the host cannot be used: {found} is a cloud's metadata service, " + (
        "which no webhook may reach"
    )


def test_a_name_that_no_server_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "the host cannot be used" in post(f"http://{'a' * 70}.example/").error
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "Name or service not known" in post("http://hooks.example.org/").error


def test_a_name_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(30) and [])
    started = time.monotonic()
    try:
        assert post("http://hooks.example.org/", deadline=0.3).error == "no answer within 0.3 s"
        assert time.monotonic() - started < 3.0
    finally:
        over.set()


def test_proxies_of_the_environment_are_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        assert post(receiver.url).succeeded
        assert proxy.got == []
