"""Signatures, secrets, addresses and waiting times, each by itself."""

from __future__ import annotations

import base64
import ipaddress
import random
from typing import Any

import pytest

from controlplane.errors import Invalid
from controlplane.webhooks.addresses import (
    AddressRefusedError,
    address_require,
    addresses_permitted,
    url_require,
    url_shown,
)
from controlplane.webhooks.keys import SecretLostError, secret_derive, secret_make, secret_text
from controlplane.webhooks.schedule import LONGEST_RETRY, MOST_TRIES, retry_delay
from controlplane.webhooks.signing import signed_headers


def test_the_signature_is_that_of_the_specification() -> None:
    """The example with which the libraries of Standard Webhooks test themselves."""
    headers = signed_headers(
        delivery="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
        keys=[base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), b"another"],
    )
    first, second = headers["webhook-signature"].split(" ")
    assert first == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert second.startswith("v1,")
    assert second != first
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert headers["webhook-timestamp"] == "1614265330"


def test_secrets_are_derived_and_never_stored(settings: Any) -> None:
    settings.SECRET_KEY = "first"
    stored, secret = secret_make()
    assert secret_derive(stored) == secret
    assert len(secret) == 32
    assert secret_make()[1] != secret
    text = secret_text(secret)
    assert text.startswith("whsec_")
    assert text.removeprefix("whsec_") not in (stored.salt, stored.fingerprint)
    settings.SECRET_KEY = "second"
    with pytest.raises(SecretLostError, match="RESURGE_SECRET_KEY"):
        secret_derive(stored)
    settings.SECRET_KEY_FALLBACKS = ["first"]
    assert secret_derive(stored) == secret


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.1.1", "100.64.0.1",
        "0.0.0.1", "224.0.0.1", "255.255.255.255", "192.0.0.1", "198.18.0.1", "::1", "::", "fe80::1",
        "fd00:ec2::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
        "2002:7f00:1::", "2001:db8::1", "fec0::1", "feff:ffff::1", "64:ff9b:1::808:808", "64:ff9b:1:ffff::1",
        "::127.0.0.1", "::8.8.8.8", "::ffff:0:7f00:1", "192.88.99.1", "5f00::1", "3fff::1",
        "2001:0:a00:1::f7f7:f7f7",
    ],
)  # fmt: skip
def test_what_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(AddressRefusedError, match="RESURGE_WEBHOOK_NETWORKS"):
        address_require(ipaddress.ip_address(address), ())


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.169.253", "169.254.170.2", "169.254.170.23", "169.254.0.23",
        "169.254.42.42", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23",
        "fd20:ce::254", "fd00:42::42", "::ffff:169.254.169.254", "::ffff:168.63.129.16", "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1", "2002:6464:64c8::",
    ],
)  # fmt: skip
@pytest.mark.parametrize("networks", [(), ("0.0.0.0/0", "::/0")])
def test_a_metadata_service_is_refused_whatever_is_permitted(address: str, networks: tuple[str, ...]) -> None:
    permitted = [ipaddress.ip_network(network) for network in networks]
    with pytest.raises(AddressRefusedError, match="metadata service"):
        address_require(ipaddress.ip_address(address), permitted)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_what_is_public_is_not(address: str) -> None:
    address_require(ipaddress.ip_address(address), ())


def test_the_installation_may_permit_private_addresses() -> None:
    permitted = (ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00::/8"))
    address_require(ipaddress.ip_address("10.1.2.3"), permitted)
    address_require(ipaddress.ip_address("::ffff:10.1.2.3"), permitted)
    address_require(ipaddress.ip_address("fd12::1"), permitted)
    for other in ("10.2.0.1", "127.0.0.1", "fe80::1"):
        with pytest.raises(AddressRefusedError):
            address_require(ipaddress.ip_address(other), permitted)


def test_a_name_is_reached_at_its_permitted_addresses_only() -> None:
    assert addresses_permitted(["8.8.8.8", "127.0.0.1"], ()) == ["8.8.8.8"]
    assert addresses_permitted([], ()) == []
    with pytest.raises(AddressRefusedError):
        addresses_permitted(["10.0.0.1", "127.0.0.1"], ())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "printable"),
        ("ftp://example.org/", "must begin with https"),
        ("file:///etc/passwd", "must begin with https"),
        ("javascript:alert(1)", "must begin with https"),
        ("//example.org/", "must begin with https"),
        ("https://", "must name a host"),
        ("https:///path", "must name a host"),
        ("https://example.org:0/", "must name a host"),
        ("https://example.org:99999/", "cannot be read"),
        ("https://[::1", "cannot be read"),
        ("https://user:word@example.org/", "no user and password"),
        ("https://token@example.org/", "no user and password"),
        ("https://example.org/#part", "no fragment"),
        ("https://example.org/#", "no fragment"),
        ("https://example.org/a b", "printable"),
        ("https://example.org/\r\nx: y", "printable"),
        ("https://exämple.org/", "printable"),
        ("https://example.org/" + "x" * 500, "longer than"),
        ("http://127.0.0.1:8000/", "not a public address"),
        ("http://localhost/", "not a public address"),
        ("http://a.localhost./", "not a public address"),
        ("http://[::ffff:10.0.0.1]/", "not a public address"),
        ("http://169.254.169.254/latest/meta-data/", "metadata service"),
        ("http://[fec0::1]/", "not a public address"),
    ],
)
def test_urls_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        url_require(url, ())
    assert refused.value.problems[0].path == "url"


@pytest.mark.parametrize(
    "url", ["https://example.org", "http://hooks.example.org:8080/a/b?c=d", "https://[2606:4700::1111]/x"]
)
def test_urls_that_can(url: str) -> None:
    url_require(url, ())


def test_a_shown_url_has_no_path() -> None:
    assert url_shown("https://hooks.example.org:8443/T0/B1?key=x") == "https://hooks.example.org:8443/..."
    assert url_shown("https://example.org/") == "https://example.org"


def test_waits_double_with_some_chance_up_to_an_hour() -> None:
    rng = random.Random(1)
    for tries in range(1, MOST_TRIES + 1):
        nominal = min(5.0 * 2 ** (tries - 1), LONGEST_RETRY)
        drawn = {retry_delay(tries, rng=rng).total_seconds() for _ in range(50)}
        assert all(0.8 * nominal <= wait <= 1.2 * nominal for wait in drawn)
        assert len(drawn) > 40
    whole = sum(min(5.0 * 2 ** (tries - 1), LONGEST_RETRY) for tries in range(1, MOST_TRIES))
    assert 5 * 3600 < whole < 6 * 3600


def test_a_receiver_may_ask_for_more_time_but_not_for_ever() -> None:
    assert retry_delay(1, asked=90.0).total_seconds() == 90.0
    assert retry_delay(1, asked=0.0).total_seconds() >= 4.0
    assert retry_delay(1, asked=1e6).total_seconds() == LONGEST_RETRY
