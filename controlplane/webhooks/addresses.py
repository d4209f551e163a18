"""Where webhooks may go: public addresses, and the private ones that the installation names.

A webhook must not give access to servers that only this machine can reach: those on the loopback interface,
neighbours in the data centre, a cloud's metadata service.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from urllib.parse import SplitResult, urlsplit

from controlplane.errors import Invalid
from controlplane.webhooks.models import URL_LENGTH
from host.environment import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

VARIABLE = "RESURGE_WEBHOOK_NETWORKS"

_PLAIN = re.compile(r"[!-~]+")  # printable ASCII without the space
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_SPECIAL = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",  # special purposes, among them a cloud's metadata service
        "192.88.99.0/24",  # relays of 6to4, which are no more
        "fec0::/10",  # site-local, the private addresses of old
        "64:ff9b:1::/48",  # translated to IPv4 by a network's own rules, so to any address
        "::/96",  # an IPv4 address, of old
        "::ffff:0:0:0/96",  # an IPv4 address, translated without state
        "5f00::/16",  # segments of a route
        "3fff::/20",  # documentation
    )
)
"""Python takes these for global, all or in some versions."""

_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google, Azure, Oracle, OpenStack and others
        *("169.254.169.253", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23"),  # AWS
        "fd20:ce::254",  # Google
        "168.63.129.16",  # Azure: looks public, and answers inside only
        "192.0.0.192",  # Oracle
        "100.100.100.200",  # Alibaba
        "169.254.0.23",  # Tencent
        *("169.254.42.42", "fd00:42::42"),  # Scaleway
    )
)
"""Where clouds give credentials to whatever runs on a host."""


class AddressRefusedError(ValueError):
    """The host is one that webhooks must not reach; the message says which and what to do."""


def url_require(url: str, networks: Iterable[Network]) -> None:
    """Raise `Invalid` (path ``url``) unless the URL can be used.

    A host name is resolved and checked before every attempt, since its addresses may change. An IP address in
    the URL is checked here.
    """
    if len(url) > URL_LENGTH:
        raise Invalid("url", f"longer than {URL_LENGTH} characters")
    if not _PLAIN.fullmatch(url):
        raise Invalid("url", "must consist of printable ASCII characters without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid("url", f"cannot be read: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise Invalid("url", "must begin with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise Invalid("url", "must hold no user and password; the receiver checks the signature instead")
    if parts.fragment or url.endswith("#"):
        raise Invalid("url", "must have no fragment (#...): it would not be sent")
    if not parts.hostname or port == 0:
        raise Invalid("url", "must name a host, as in https://example.org/hooks")
    literal = _literal(parts.hostname)
    if literal is None and parts.hostname.rstrip(".").rpartition(".")[2] == "localhost":
        literal = ipaddress.IPv4Address("127.0.0.1")
    if literal is not None:
        try:
            address_require(literal, networks)
        except AddressRefusedError as error:
            raise Invalid("url", str(error)) from None


def address_require(address: Address, networks: Iterable[Network]) -> None:
    """Raise `AddressRefusedError` unless the address is public or in one of `networks`. A metadata service is
    refused in any case: a range that was permitted for other servers may hold it."""
    reached = list(_reached(address))
    if not _METADATA.isdisjoint(reached):
        raise AddressRefusedError(f"{address} is a cloud's metadata service, which no webhook may reach")
    if any(one in network for one in reached for network in networks if one.version == network.version):
        return
    if any(one.is_multicast or not one.is_global or _is_special(one) for one in reached):
        raise AddressRefusedError(
            f"{address} is not a public address; {VARIABLE} can permit private address ranges"
        )


def addresses_permitted(found: Iterable[str], networks: Iterable[Network]) -> list[str]:
    """The addresses of a host name that webhooks may reach; raises `AddressRefusedError` if there is none."""
    permitted: list[str] = []
    refused: AddressRefusedError | None = None
    for text in found:
        try:
            address_require(ipaddress.ip_address(text), networks)
        except AddressRefusedError as error:
            refused = error
        else:
            permitted.append(text)
    if refused is not None and not permitted:
        raise refused
    return permitted


def url_shown(url: str) -> str:
    """The URL without its path, which often holds a secret: for logs, problems and the audit trail."""
    parts = urlsplit(url)
    rest = "/..." if (parts.path, parts.query) not in (("", ""), ("/", "")) else ""
    return f"{parts.scheme}://{_authority(parts)}{rest}"


def _authority(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _reached(address: Address) -> Iterator[Address]:
    """The address and every IPv4 address to which packets for it may be translated."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield from address.teredo
        if address in _TRANSLATED:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_special(address: Address) -> bool:
    return any(address.version == network.version and address in network for network in _SPECIAL)
