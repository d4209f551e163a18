"""Every ``RESURGE_*`` variable, read in one place, typed and validated.

Importable without Django, so that the agent, the driver and the launcher read
the same names with the same defaults. ``read()`` raises `InvalidEnvironment`
naming the variable, the value and what would be accepted.
"""

from __future__ import annotations

import ipaddress
import os
import random
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from domain.durations import FORMS, seconds_read

ROOT = Path(__file__).resolve().parents[1]

PROVIDERS = ("local", "script")
"""Who brings up nodes: this installation, as processes of its own host, or an executable."""

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,200}")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_ANY_ADDRESS = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - refused, not bound


LONGEST = 315_360_000.0
"""Seconds of a duration, ten years: clocks and databases can reckon with it."""


class InvalidEnvironment(ValueError):  # noqa: N818 - named for what is the matter
    """A variable has a value that cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Distribution of the time a provider needs to bring up a replacement node."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str, variable: str = "delay") -> Delay:
        """Read ``uniform:<low>:<high>`` or ``fixed:<seconds>``."""
        kind, _, rest = text.partition(":")
        try:
            if kind == "uniform":
                low, high = (float(part) for part in rest.split(":"))
            elif kind == "fixed":
                low = high = float(rest)
            else:
                raise ValueError
        except ValueError:
            raise InvalidEnvironment(
                f"{variable}={text!r}: write uniform:<low>:<high> or fixed:<seconds>, in seconds"
            ) from None
        if not 0 <= low <= high <= LONGEST:
            raise InvalidEnvironment(f"{variable}={text!r}: needs 0 <= low <= high <= {LONGEST:.0f}")
        return cls(low, high)

    def draw(self, rng: random.Random) -> float:
        return rng.uniform(self.low, self.high)

    def __str__(self) -> str:
        return f"uniform:{self.low:g}:{self.high:g}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of requests within a period in seconds."""

    count: int
    period: float

    @classmethod
    def parse(cls, text: str, variable: str = "rate") -> Rate | None:
        """Read ``<count>/second``, ``/minute`` or ``/hour``; ``off`` is no limit (None)."""
        if text.lower() == "off":
            return None
        count, _, period = text.partition("/")
        if not (count.isascii() and count.isdigit() and 0 < int(count) <= 1_000_000 and period in _PERIODS):
            raise InvalidEnvironment(f"{variable}={text!r}: write <count>/second, /minute or /hour, or off")
        return cls(int(count), _PERIODS[period])

    @property
    def per_second(self) -> float:
        return self.count / self.period

    def __str__(self) -> str:
        period = next(name for name, seconds in _PERIODS.items() if seconds == self.period)
        return f"{self.count}/{period}"


@dataclass(frozen=True, slots=True)
class Keep:
    """How long and how much of something is kept: seconds, and rows (of logs: megabytes)."""

    age: float
    size: int

    @classmethod
    def parse(cls, text: str, variable: str = "keep") -> Keep:
        """Read ``<age>/<size>``, such as 90d/1000000 or 1h/200000."""
        found = _KEEP.fullmatch(text.strip())
        if found is None:
            raise InvalidEnvironment(
                f"{variable}={text!r}: write <age>/<size>, such as 90d/1000000; an age is in d, h or m"
            )
        return cls(int(found[1]) * _AGES[found[2]], int(found[3]))

    def __str__(self) -> str:
        unit = next(unit for unit in "dhm" if self.age % _AGES[unit] == 0 or unit == "m")
        return f"{self.age / _AGES[unit]:g}{unit}/{self.size}"


_KEEP = re.compile(r"([0-9]{1,5})([dhm])/([0-9]{1,12})", re.ASCII)
_AGES = {"d": 86_400.0, "h": 3_600.0, "m": 60.0}
_PERIODS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}


@dataclass(frozen=True, slots=True)
class Environment:
    """The settings of one installation; durations in seconds, shares between 0 and 1.

    Fields with secrets are left out of the representation, which appears in logs and on error pages.
    """

    home: Path
    port: int
    secret_key: str = field(repr=False)
    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    zookeeper: str
    zookeeper_secret: str = field(repr=False)
    checkpoints_password: str = field(repr=False)
    spark_master: str
    spark_secret: str = field(repr=False)
    driver_host: str
    session_timeout: float
    heartbeat_interval: float
    fault_injection: bool
    cpu_caps: bool
    provider: str
    provider_script: str
    replacement_delay: Delay
    correlation_window: float
    correlation_threshold: int
    max_utilisation: float
    replay_reserve: float
    overload_after: float
    slow_after: float
    forget_nodes_after: float
    rack_price: float
    moves_at_once: int
    theta: float
    checkpoint_interval: float
    checkpoints_kept: int
    checkpoints: str = field(repr=False)
    outputs: str
    force: bool
    https: bool
    hsts: float
    rate_limit_token: Rate | None
    rate_limit_page: Rate | None
    rate_limit_anonymous: Rate | None
    login_failures: int
    login_lock: float
    debug: bool
    log_level: str
    operator_modules: tuple[str, ...]
    mask_columns: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    webhook_networks: tuple[Network, ...]
    keep_events: Keep
    keep_metrics: Keep
    keep_samples: Keep
    keep_measurements: Keep
    keep_checkpoints: Keep
    keep_plans: Keep
    keep_audit: Keep
    keep_operations: Keep
    keep_problems: Keep
    keep_sessions: Keep
    keep_tokens: Keep
    keep_answers: Keep
    keep_deliveries: Keep
    keep_alerts: Keep
    keep_sign_ins: Keep
    keep_logs: Keep

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def logs(self) -> Path:
        return self.home / "log"


class _Reader:
    """Typed access to the variables; each method names the variable it complains about."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def text(self, name: str, default: str) -> str:
        return self._variables.get(name, "").strip() or default

    def number(self, name: str, default: float, low: float, high: float) -> float:
        raw = self.text(name, repr(default))
        try:
            value = float(raw)
        except ValueError:
            raise InvalidEnvironment(f"{name}={raw!r}: not a number") from None
        if not low <= value <= high:
            raise InvalidEnvironment(f"{name}={raw}: must be {low:g} to {high:g}")
        return value

    def seconds(self, name: str, default: float, low: float, high: float = LONGEST) -> float:
        """A duration: a number of seconds, or one with a unit such as 15m or 1h."""
        raw = self.text(name, repr(default))
        value = seconds_read(raw)
        if value is None:
            raise InvalidEnvironment(f"{name}={raw!r}: write {FORMS}")
        if not low <= value <= high:
            raise InvalidEnvironment(f"{name}={raw}: must be {low:g} s to {high:.10g} s")
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        value = self.number(name, default, low, high)
        if value != int(value):
            raise InvalidEnvironment(f"{name}={value}: must be a whole number")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        raw = self.text(name, "")
        if not raw:
            return default
        if raw.lower() in _TRUE:
            return True
        if raw.lower() in _FALSE:
            return False
        raise InvalidEnvironment(f"{name}={raw!r}: write 1 or 0")

    def host(self, name: str, default: str) -> str:
        """A host name or address that others can connect to, without a scheme or a port."""
        value = self.text(name, default)
        if not _HOST.fullmatch(value):
            raise InvalidEnvironment(
                f"{name}={value!r}: write a host name or an IP address (IPv6 in brackets), without a port"
            )
        if value in _ANY_ADDRESS:
            raise InvalidEnvironment(f"{name}={value}: name one address that the nodes can connect to")
        return value

    def secret(self, name: str) -> str:
        """A secret of an own making; empty where there is none. Not repeated in the message."""
        value = self.text(name, "")
        if value and not _SECRET.fullmatch(value):
            raise InvalidEnvironment(
                f"{name}: write 16 to 200 letters, digits, - and _, such as those of "
                '`python3 -c "import secrets; print(secrets.token_urlsafe(32))"`'
            )
        return value

    def directory(self, name: str, default: str) -> str:
        """Processes work in directories of their own, so each would take a part of a path for another one."""
        value = self.text(name, default)
        if not Path(value).is_absolute():
            raise InvalidEnvironment(f"{name}={value!r}: write the whole path of a directory, from /")
        return value

    def storage(self, name: str, default: str) -> str:
        """A directory, or the URL of a server. Not repeated in the message: it may have a password."""
        value = self.text(name, default)
        path = value.removeprefix("file://").removeprefix("file:")
        if ("://" not in value or path != value) and not path.startswith(("/", "~")):
            raise InvalidEnvironment(
                f"{name}: write the whole path of a directory, file:///..., or another URL"
            )
        return value

    def redis(self, name: str, default: str) -> str:
        value = self.text(name, default)
        if not value.startswith(("redis://", "rediss://")):
            raise InvalidEnvironment(f"{name}: write redis://:password@host:6379/0, or rediss://...")
        return value

    def rate(self, name: str, default: str) -> Rate | None:
        return Rate.parse(self.text(name, default), name)

    def keep(self, name: str, default: str) -> Keep:
        return Keep.parse(self.text(name, default), name)

    def names(self, name: str, default: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name, default).split(",") if part.strip())

    def networks(self, name: str) -> tuple[Network, ...]:
        """Address ranges such as 10.1.0.0/16, separated by commas; a single address is a range of one."""
        try:
            return tuple(ipaddress.ip_network(part) for part in self.names(name, ""))
        except ValueError as error:
            raise InvalidEnvironment(
                f"{name}: {error}; write address ranges such as 10.1.0.0/16,192.0.2.7"
            ) from None


def read(variables: Mapping[str, str] | None = None) -> Environment:
    """Read the environment (or `variables`); raises `InvalidEnvironment`."""
    reader = _Reader(os.environ if variables is None else variables)
    home = Path(reader.text("RESURGE_HOME", str(ROOT / "var"))).expanduser().resolve()
    debug = reader.flag("RESURGE_DEBUG", False)
    log_level = reader.text("RESURGE_LOG_LEVEL", "INFO").upper()
    if log_level not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise InvalidEnvironment(f"RESURGE_LOG_LEVEL={log_level!r}: DEBUG, INFO, WARNING, ERROR or CRITICAL")
    database_url = reader.text("RESURGE_DATABASE_URL", f"sqlite:///{home}/db/resurge.sqlite3")
    database_parse(database_url)
    delay = reader.text("RESURGE_REPLACEMENT_DELAY", "uniform:120:360")
    provider, provider_script = _provider_read(reader)
    return Environment(
        home=home,
        port=reader.integer("RESURGE_PORT", 8000, 1, 65535),
        # Without a key given, sessions end with the process: `make up` writes a lasting one.
        secret_key=reader.text("RESURGE_SECRET_KEY", "") or secrets.token_urlsafe(48),
        database_url=database_url,
        redis_url=reader.redis("RESURGE_REDIS_URL", "redis://127.0.0.1:6379/0"),
        zookeeper=reader.text("RESURGE_ZOOKEEPER", "127.0.0.1:2181"),
        zookeeper_secret=reader.secret("RESURGE_ZOOKEEPER_SECRET"),
        checkpoints_password=reader.text("RESURGE_CHECKPOINTS_PASSWORD", ""),
        spark_master=reader.text("RESURGE_SPARK_MASTER", "spark://127.0.0.1:7077"),
        spark_secret=reader.secret("RESURGE_SPARK_SECRET"),
        # Where executors reach the driver: an address of this host once nodes run on others.
        driver_host=reader.host("RESURGE_DRIVER_HOST", "127.0.0.1"),
        session_timeout=reader.seconds("RESURGE_SESSION_TIMEOUT", 4.0, 0.5, 3600),
        heartbeat_interval=reader.seconds("RESURGE_HEARTBEAT_INTERVAL", 1.0, 0.05, 600),
        fault_injection=reader.flag("RESURGE_FAULT_INJECTION", False),
        # Local nodes are limited to their capacity if control groups can be written.
        cpu_caps=reader.flag("RESURGE_CPU_CAPS", True),
        provider=provider,
        provider_script=provider_script,
        replacement_delay=Delay.parse(delay, "RESURGE_REPLACEMENT_DELAY"),
        correlation_window=reader.seconds("RESURGE_CORRELATION_WINDOW", 10.0, 0.0),
        correlation_threshold=reader.integer("RESURGE_CORRELATION_THRESHOLD", 2, 1, 100_000),
        max_utilisation=reader.number("RESURGE_MAX_UTILISATION", 0.8, 0.01, 1.0),
        replay_reserve=reader.number("RESURGE_REPLAY_RESERVE", 1.0, 1.0, 10.0),
        overload_after=reader.seconds("RESURGE_OVERLOAD_AFTER", 3.0, 0.0, 86_400.0),
        slow_after=reader.seconds("RESURGE_SLOW_AFTER", 20.0, 0.0, 86_400.0),
        forget_nodes_after=reader.seconds("RESURGE_FORGET_NODES_AFTER", 86_400.0, 0.0, 31_536_000.0),
        rack_price=reader.number("RESURGE_RACK_PRICE", 0.1, 0.0, 1.0),
        moves_at_once=reader.integer("RESURGE_MOVES_AT_ONCE", 200, 1, 10_000),
        theta=reader.number("RESURGE_THETA", 1.2, 1.0, 1_000.0),
        checkpoint_interval=reader.seconds("RESURGE_CHECKPOINT_INTERVAL", 10.0, 0.1),
        checkpoints_kept=reader.integer("RESURGE_CHECKPOINTS_KEPT", 12, 3, 100),
        checkpoints=reader.storage("RESURGE_CHECKPOINTS", f"file://{home}/checkpoints"),
        outputs=reader.directory("RESURGE_OUTPUTS", str(home / "outputs")),
        # Without it, a host that crashes can lose what was committed; processes that end lose nothing.
        force=reader.flag("RESURGE_FORCE_TO_DISK", True),
        # Clients connect through a proxy with TLS; only a demonstration works without.
        https=reader.flag("RESURGE_HTTPS", True),
        hsts=reader.seconds("RESURGE_HSTS", 31_536_000, 0),
        rate_limit_token=reader.rate("RESURGE_RATE_LIMIT_TOKEN", "6000/minute"),
        rate_limit_page=reader.rate("RESURGE_RATE_LIMIT_PAGE", "6000/minute"),
        rate_limit_anonymous=reader.rate("RESURGE_RATE_LIMIT_ANONYMOUS", "120/minute"),
        login_failures=reader.integer("RESURGE_LOGIN_FAILURES", 5, 1, 1_000),
        login_lock=reader.seconds("RESURGE_LOGIN_LOCK", 900, 1),
        debug=debug,
        log_level=log_level,
        operator_modules=reader.names("RESURGE_OPERATOR_MODULES", "spark_jobs.operators"),
        mask_columns=reader.names("RESURGE_MASK_COLUMNS", ""),
        allowed_hosts=reader.names("RESURGE_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]"),
        # Webhooks go to public addresses only, and to what the administrator of the hosts names here.
        webhook_networks=reader.networks("RESURGE_WEBHOOK_NETWORKS"),
        # What is kept, by age and rows (logs: megabytes). Nothing else in the program says so.
        keep_events=reader.keep("RESURGE_KEEP_EVENTS", "90d/1000000"),
        keep_metrics=reader.keep("RESURGE_KEEP_METRICS", "1h/200000"),
        keep_samples=reader.keep("RESURGE_KEEP_SAMPLES", "1d/1000000"),
        keep_measurements=reader.keep("RESURGE_KEEP_MEASUREMENTS", "30d/2000000"),
        keep_checkpoints=reader.keep("RESURGE_KEEP_CHECKPOINTS", "30d/100000"),
        keep_plans=reader.keep("RESURGE_KEEP_PLANS", "365d/20000"),
        keep_audit=reader.keep("RESURGE_KEEP_AUDIT", "730d/1000000"),
        keep_operations=reader.keep("RESURGE_KEEP_OPERATIONS", "90d/100000"),
        keep_problems=reader.keep("RESURGE_KEEP_PROBLEMS", "90d/10000"),
        keep_sessions=reader.keep("RESURGE_KEEP_SESSIONS", "1d/10000"),
        keep_tokens=reader.keep("RESURGE_KEEP_TOKENS", "30d/10000"),
        keep_answers=reader.keep("RESURGE_KEEP_ANSWERS", "1d/100000"),
        keep_deliveries=reader.keep("RESURGE_KEEP_DELIVERIES", "14d/500000"),
        keep_alerts=reader.keep("RESURGE_KEEP_ALERTS", "90d/100000"),
        keep_sign_ins=reader.keep("RESURGE_KEEP_SIGN_INS", "30d/10000"),
        keep_logs=reader.keep("RESURGE_KEEP_LOGS", "14d/2000"),
    )


def checkpoints_password() -> str:
    """Of the server that keeps checkpoints, where its URL has none; empty if there is none. Read by itself:
    of all secrets, the tasks that restore partitions have this one alone."""
    return _Reader(os.environ).text("RESURGE_CHECKPOINTS_PASSWORD", "")


def _provider_read(reader: _Reader) -> tuple[str, str]:
    """Who brings up nodes, and the executable of the provider `script`.

    Whether that file exists is asked where it is run: nodes on other hosts read these variables too.
    """
    provider = reader.text("RESURGE_PROVIDER", PROVIDERS[0])
    script = reader.text("RESURGE_PROVIDER_SCRIPT", "")
    if provider not in PROVIDERS:
        raise InvalidEnvironment(f"RESURGE_PROVIDER={provider!r}: {' or '.join(PROVIDERS)}")
    if provider == "script" and not script:
        raise InvalidEnvironment(
            "RESURGE_PROVIDER=script needs RESURGE_PROVIDER_SCRIPT: the path of the executable"
        )
    if script and not Path(script).is_absolute():
        raise InvalidEnvironment(f"RESURGE_PROVIDER_SCRIPT={script!r}: write the whole path, from /")
    return provider, script


def database_parse(url: str) -> dict[str, Any]:
    """Split a database URL into Django's ``ENGINE``, ``NAME``, ``USER`` ... keys.

    Accepts ``sqlite:///absolute/path``, ``sqlite://:memory:`` and
    ``postgres://user:password@host:port/name?sslmode=require``, with parameters of libpq; raises
    `InvalidEnvironment`.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidEnvironment(
            "RESURGE_DATABASE_URL: write [ in the user or password as %5B, and ] as %5D"
        ) from None
    if parts.scheme == "sqlite":
        name = url.removeprefix("sqlite://")
        if name != ":memory:" and (not name.startswith("/") or name == "/"):
            raise InvalidEnvironment(
                f"RESURGE_DATABASE_URL={url!r}: write sqlite:/// and the whole path of a file"
            )
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": name}
    if parts.scheme in {"postgres", "postgresql"}:
        name = unquote(parts.path.lstrip("/"))
        if not name:
            raise InvalidEnvironment("RESURGE_DATABASE_URL: the URL names no database")
        try:
            port = parts.port or 5432
        except ValueError:
            raise InvalidEnvironment("RESURGE_DATABASE_URL: the port is not a number") from None
        options = dict(parse_qsl(parts.query))
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or ("" if "host" in options else "127.0.0.1"),
            "PORT": port,
            "OPTIONS": options,
        }
    raise InvalidEnvironment(
        f"RESURGE_DATABASE_URL has the scheme {parts.scheme!r}: use sqlite:///path or postgres://..."
    )
