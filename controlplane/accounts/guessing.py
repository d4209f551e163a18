"""What the limits on guessing passwords go by: clients, and one password at a time."""

from __future__ import annotations

import ipaddress
import threading

_checking = tuple(threading.Lock() for _ in range(64))


def client_of(address: str) -> str:
    """The address by which a client is limited and locked out. Of IPv6 a whole /64 counts as one, since a
    host may choose from it; IPv4 may come written as IPv6, and then would all be in one /64."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:  # a Unix socket has none
        return ""
    if isinstance(known, ipaddress.IPv6Address):
        known = known.ipv4_mapped or ipaddress.ip_network((int(known), 64), strict=False).network_address
    return str(known)


def password_turn(user: str | None, address: str) -> threading.Lock:
    """To be held while a password is checked, one of a user and client at a time: each of many that come at
    once would find no wrong one before it, and be checked whatever the limit."""
    return _checking[hash((user, client_of(address))) % len(_checking)]
