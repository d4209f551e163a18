"""Rate limits: of a token, of a signed-in user, and of an address whose requests carry neither.

Token buckets in this process's memory: each web process protects itself, and none waits for another server
to learn whether it may answer.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from controlplane.accounts.guessing import client_of
from host.environment import Rate

MOST_KEYS = 10_000


class Buckets:
    """One bucket per key: it holds as many requests as one period permits, and refills evenly."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        # key -> (requests left, when that was so); the key that was used least recently is forgotten first
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """0 where the request may go on, else the seconds after which one may."""
        now = self._clock()
        with self._lock:
            level, at = self._levels.pop(key, (float(self._rate.count), now))
            level = min(float(self._rate.count), level + (now - at) * self._rate.per_second)
            allowed = level >= 1
            self._levels[key] = (level - 1 if allowed else level, now)
            if len(self._levels) > MOST_KEYS:
                self._levels.popitem(last=False)
        return 0.0 if allowed else math.ceil((1 - level) / self._rate.per_second)


@cache
def _buckets(tier: str, rate: Rate) -> Buckets:
    return Buckets(rate)


def token_take(token: str) -> float:
    return _take("token", settings.RESURGE.rate_limit_token, token)


def page_take(user: str) -> float:
    return _take("page", settings.RESURGE.rate_limit_page, user)


def anonymous_take(address: str) -> float:
    """`address`: where the request came from."""
    return _take("anonymous", settings.RESURGE.rate_limit_anonymous, client_of(address))


def _take(tier: str, rate: Rate | None, key: str) -> float:
    return 0.0 if rate is None else _buckets(tier, rate).take(key)


class CallerThrottle(BaseThrottle):
    """Each token has a limit of its own, and so has each user who is signed in."""

    _wait: float = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        if request.auth is not None:
            self._wait = token_take(request.auth.digest)
        elif request.user.is_authenticated:
            self._wait = page_take(str(request.user.pk))
        return not self._wait

    def wait(self) -> float:
        return self._wait
