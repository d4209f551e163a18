"""Sending one signed request to an external server, within bounds.

The host name is resolved and its addresses are checked here, and the connection goes to a checked address, so
changing the DNS record after the check has no effect. Redirects are not followed, proxies of the environment
are not used, the whole exchange has one deadline, and little of the answer is read.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpcore

from controlplane.webhooks.addresses import AddressRefusedError, addresses_permitted
from host.environment import Network

DEADLINE = 10.0
"""Seconds from resolving the name to the end of what is read of the answer."""

CONNECT_LIMIT = 5.0
EXCERPT = 1024
"""Bytes of the answer that are read and kept."""

GONE = 410


# Not the event loop's own threads: the loop would wait for them at its end, and a name server may be slow.
_RESOLVERS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="webhook-resolver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an attempt. `error` is empty where it succeeded; durations in seconds."""

    duration: float
    status: int | None = None
    error: str = ""
    excerpt: str = ""
    retry_after: float | None = None

    @property
    def succeeded(self) -> bool:
        return not self.error


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: float | None
    excerpt: bytes


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that webhooks may reach."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        resolve = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(_RESOLVERS, resolve)
        addresses = addresses_permitted(
            dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found), self._networks
        )
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def webhook_post(
    url: str,
    *,
    headers: dict[str, str],
    body: bytes,
    networks: Sequence[Network] = (),
    deadline: float = DEADLINE,
) -> Outcome:
    """Send `body`; every failure is an `Outcome`, nothing is raised."""
    started = time.monotonic()
    heard: list[_Answer] = []
    error = ""
    try:
        asyncio.run(_exchange(url, headers, body, networks, deadline, heard))
    except TimeoutError:
        error = "" if heard else f"no answer within {deadline:g} s"
    except (AddressRefusedError, socket.gaierror, UnicodeError) as refused:
        error = f"the host cannot be used: {refused}"
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as problem:
        error = "" if heard else f"{type(problem).__name__}: {problem}".rstrip(": ")
    duration = time.monotonic() - started
    if not heard:
        return Outcome(duration=duration, error=error)
    answer = heard[-1]
    return Outcome(
        duration=duration,
        status=answer.status,
        error=error or _complaint(answer.status),
        excerpt=answer.excerpt.decode("utf-8", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}"),
        retry_after=answer.retry_after,
    )


async def _exchange(
    url: str,
    headers: dict[str, str],
    body: bytes,
    networks: Sequence[Network],
    deadline: float,
    heard: list[_Answer],
) -> None:
    """Send and read. The last element of `heard` is what was received so far, also when time is up."""
    limits = {"connect": min(CONNECT_LIMIT, deadline), "read": deadline, "write": deadline, "pool": deadline}
    async with (
        asyncio.timeout(deadline),
        httpcore.AsyncConnectionPool(
            ssl_context=_tls() if url.startswith("https:") else None,
            network_backend=_CheckedBackend(networks),
            keepalive_expiry=0.0,
        ) as pool,
        pool.stream(
            "POST", url, headers=list(headers.items()), content=body, extensions={"timeout": limits}
        ) as response,
    ):
        excerpt = b""
        retry_after = _seconds(dict(response.headers).get(b"retry-after", b""))
        heard.append(_Answer(response.status, retry_after, excerpt))
        async for chunk in response.aiter_stream():
            excerpt = (excerpt + chunk)[:EXCERPT]
            heard.append(_Answer(response.status, retry_after, excerpt))
            if len(excerpt) == EXCERPT:
                break


@functools.cache
def _tls() -> ssl.SSLContext:
    """Uses the system's certificates, which take too long to read for each request."""
    return ssl.create_default_context()


def _complaint(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed; set the URL it leads to"
    return f"answered {status}"


def _seconds(value: bytes) -> float | None:
    """``Retry-After`` in seconds; a date is not used, because it needs synchronised clocks."""
    text = value.strip()
    return float(text) if text.isdigit() and len(text) < 8 else None
