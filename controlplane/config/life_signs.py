"""Which threads of other processes must live, and what Redis knows of them.

The process of a thread writes a sign of life every few seconds; it ends by itself soon after the thread has.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis import Redis

MUST_LIVE = (
    "node-watch",
    "lifelines",
    "telemetry-ingestion",
    "launcher-drivers",
    "launcher-nodes",
    "stall-watch-detection",
    "stall-watch-recovery",
    "stall-watch-webhooks",
)
LASTS = 15
"""Seconds that a sign of life counts."""
SOCKET_TIMEOUT = 1.0


def _key(thread: str) -> str:
    return f"resurge:alive:{thread}"


def redis_of(url: str) -> Redis:
    """A client that waits a second at most."""
    return Redis.from_url(url, socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=SOCKET_TIMEOUT)


def signs_write(redis: Redis, threads: Iterable[str], *, process: int) -> None:
    """Note that these threads live, in this process. Raises `RedisError`."""
    pipe = redis.pipeline(transaction=False)
    for thread in threads:
        pipe.set(_key(thread), process, ex=LASTS)
    pipe.execute()


def threads_missing(redis: Redis) -> list[str]:
    """The threads that must live and gave no sign of life. Raises `RedisError`."""
    found = redis.mget([_key(thread) for thread in MUST_LIVE])
    return [thread for thread, sign in zip(MUST_LIVE, found, strict=True) if sign is None]
