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
# Not private in every Python version: special purposes, among them a cloud's metadata service.
_SPECIAL = ipaddress.ip_network("192.0.0.0/24")


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
    """Raise `AddressRefusedError` unless the address is public or in one of `networks`."""
    reached = list(_reached(address))
    if any(one in network for one in reached for network in networks if one.version == network.version):
        return
    if any(one.is_multicast or not one.is_global or _in(one, _SPECIAL) for one in reached):
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
        if address in _TRANSLATED:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network
