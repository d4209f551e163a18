"""The settings that come from environment variables, with their effects, for the admin site."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from controlplane.accounts.roles import ADMINISTRATOR
from controlplane.topologies.models import Problem
from host.environment import Environment
from spark_jobs.state.state_storage import masked

HIDDEN = "not shown"
PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable, the field of `Environment` it sets, and what it does. `private` ones name hosts, paths
    or keys and are shown to administrators only."""

    variable: str
    field: str
    effect: str
    private: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    variable: str
    value: str
    given: bool
    effect: str


GROUPS: dict[str, tuple[Setting, ...]] = {
    "Failures and recovery": (
        Setting(
            "RESURGE_CORRELATION_THRESHOLD", "correlation_threshold",
            "At least this many nodes lost together are a correlated failure. Only then are topologies "
            "recovered in waves of which every wave rolls back running partitions. A topology's policy "
            "may set a number of its own.",
        ),
        Setting(
            "RESURGE_CORRELATION_WINDOW", "correlation_window",
            "Seconds: nodes are lost together when each is lost at most this long after the one before, "
            "or no global checkpoint was completed in between. A topology's policy may set a number of "
            "its own.",
        ),
        Setting(
            "RESURGE_SESSION_TIMEOUT", "session_timeout",
            "Seconds after which ZooKeeper ends the session of a silent node. A smaller value finds "
            "failures sooner, but a slow network may look like a failure.",
        ),
        Setting(
            "RESURGE_HEARTBEAT_INTERVAL", "heartbeat_interval",
            "Seconds between heartbeats. A node whose registration is gone and that was silent for two of "
            "them is lost.",
        ),
        Setting(
            "RESURGE_MAX_UTILISATION", "max_utilisation",
            "Share of a node's capacity that plans may use. The rest is for peaks and for catching up.",
        ),
        Setting(
            "RESURGE_REPLAY_RESERVE", "replay_reserve",
            "A restored partition is planned with this many times its normal CPU until it has caught up. "
            "1: no reserve for replays.",
        ),
        Setting(
            "RESURGE_OVERLOAD_AFTER", "overload_after",
            "Seconds for which input must arrive faster than it is processed before the least valuable "
            "queries are parked, if the topology's policy allows it. 0 switches it off.",
        ),
        Setting(
            "RESURGE_SLOW_AFTER", "slow_after",
            "Seconds for which the tasks of a node must take several times as long as those of other "
            "nodes before it is drained, if the topology's policy allows it. 0 switches it off.",
        ),
        Setting(
            "RESURGE_FORGET_NODES_AFTER", "forget_nodes_after",
            "Seconds after which a node that is lost or has left disappears from all lists, once all that "
            "ran on it is replaced. 0: only operators forget nodes.",
        ),
        Setting(
            "RESURGE_RACK_PRICE", "rack_price",
            "How much longer epochs may become, as a share, so that the loss of a rack takes down fewer "
            "queries. 0: placement ignores racks.",
        ),
        Setting(
            "RESURGE_MOVES_AT_ONCE", "moves_at_once",
            "The most partitions, or chains of partitions, that one rebalancing plan moves; in a small "
            "topology at most a tenth of them and ten more.",
        ),
        Setting(
            "RESURGE_THETA", "theta",
            "After a failure, a query is available again when its mean latency, relative to before, is "
            "below this. During an incident it counts as unavailable again above 1.25 times this.",
        ),
        Setting(
            "RESURGE_FAULT_INJECTION", "fault_injection",
            "Whether operators may kill nodes as an experiment. Switch it off in production.",
        ),
    ),
    "Checkpoints and outputs": (
        Setting(
            "RESURGE_CHECKPOINT_INTERVAL", "checkpoint_interval",
            "Seconds between global checkpoints of a topology whose specification has no "
            "`checkpoint_interval`: shorter replays less after a failure and uploads more.",
        ),
        Setting(
            "RESURGE_CHECKPOINTS_KEPT", "checkpoints_kept",
            "How many of the newest complete checkpoints of a topology stay in storage, to roll back to "
            "(3 to 100). `checkpoints_kept` of a specification overrides it. Outputs since the oldest one "
            "are not merged into larger files yet.",
        ),
        Setting(
            "RESURGE_CHECKPOINTS", "checkpoints",
            "Where checkpoints are kept: a directory, S3, Redis, PostgreSQL, or another URL of fsspec.", True,
        ),
        Setting(
            "RESURGE_CHECKPOINTS_PASSWORD", "checkpoints_password",
            "The password of the server that keeps checkpoints, where the URL has none.", True,
        ),
        Setting(
            "RESURGE_OUTPUTS", "outputs",
            "Directory where queries write their results: its whole path, the same on all hosts.", True,
        ),
        Setting(
            "RESURGE_FORCE_TO_DISK", "force",
            "Whether outputs and checkpoints are forced to disk before they count. Without it, a host that "
            "crashes can lose what was committed.",
        ),
    ),
    "Nodes and their provider": (
        Setting(
            "RESURGE_PROVIDER", "provider",
            "Who brings up nodes. local: processes on this machine. script: the executable that "
            "RESURGE_PROVIDER_SCRIPT names.",
        ),
        Setting(
            "RESURGE_PROVIDER_SCRIPT", "provider_script",
            "Path of the executable that the launcher runs with acquire, release, list or fail, and with "
            "JSON as its input and output.", True,
        ),
        Setting(
            "RESURGE_REPLACEMENT_DELAY", "replacement_delay",
            "Seconds from the request of a replacement node to its start. The provider `local` draws the "
            "delay from it, the planner `look_ahead` and what-if expect nodes by it: with the provider "
            "`script`, say here how long it takes.",
        ),
        Setting(
            "RESURGE_CPU_CAPS", "cpu_caps",
            "Whether local nodes are limited to their capacity, where control groups can be written.",
        ),
        Setting(
            "RESURGE_OPERATOR_MODULES", "operator_modules",
            "Python modules from which specifications may name operators: code that drivers and nodes run.",
        ),
        Setting(
            "RESURGE_MASK_COLUMNS", "mask_columns",
            "Columns of results whose values pages, REST and the command line do not show, separated by "
            "commas. The files have them.",
        ),
        Setting(
            "RESURGE_SPARK_MASTER", "spark_master", "The Spark master that drivers register with.", True
        ),
        Setting(
            "RESURGE_SPARK_SECRET", "spark_secret",
            "With it Spark's master, workers, drivers and executors answer each other only. `make up` makes "
            "one for the master that it starts.", True,
        ),
        Setting("RESURGE_DRIVER_HOST", "driver_host", "Address at which nodes reach the drivers.", True),
    ),
    "Retention": (
        Setting(
            "RESURGE_KEEP_EVENTS", "keep_events",
            "Numbered events without measurements. The value, here and below, is <age>/<rows>, with the "
            "age in d, h or m. A client that has missed deleted events loads the whole state again.",
        ),
        Setting("RESURGE_KEEP_METRICS", "keep_metrics", "Events with measurements, several a second."),
        Setting("RESURGE_KEEP_SAMPLES", "keep_samples", "Samples of availability, and of nodes."),
        Setting(
            "RESURGE_KEEP_MEASUREMENTS", "keep_measurements",
            "Figures over time: those of 10 s are kept for two hours, those of a minute for a day, those "
            "of 10 minutes for this age.",
        ),
        Setting(
            "RESURGE_KEEP_CHECKPOINTS", "keep_checkpoints",
            "Rows of checkpoints that are no longer in storage, besides the newest 50 of each topology.",
        ),
        Setting(
            "RESURGE_KEEP_PLANS", "keep_plans",
            "Plans of incidents, besides the newest 10 of each topology. The story of an incident stays.",
        ),
        Setting("RESURGE_KEEP_AUDIT", "keep_audit", "The audit trail."),
        Setting("RESURGE_KEEP_OPERATIONS", "keep_operations", "Operations that have ended."),
        Setting("RESURGE_KEEP_PROBLEMS", "keep_problems", "Problems, by when they last happened."),
        Setting(
            "RESURGE_KEEP_SESSIONS", "keep_sessions",
            "Sessions of browsers. The age counts from when they expire; if there are too many, those "
            "that expire first are ended.",
        ),
        Setting("RESURGE_KEEP_TOKENS", "keep_tokens", "API tokens that have expired."),
        Setting(
            "RESURGE_KEEP_ANSWERS", "keep_answers",
            "Answers to requests with an idempotency key: for this long the same request gets the same "
            "answer.",
        ),
        Setting("RESURGE_KEEP_DELIVERIES", "keep_deliveries", "Deliveries of webhooks that have ended."),
        Setting("RESURGE_KEEP_ALERTS", "keep_alerts", "Alerts that have ended; as many silences."),
        Setting(
            "RESURGE_KEEP_SIGN_INS", "keep_sign_ins",
            "Failed sign-ins. They stay while they lock a user out.",
        ),
        Setting(
            "RESURGE_KEEP_LOGS", "keep_logs",
            "<age>/<megabytes>. Logs of drivers, nodes and executors on this host; other hosts need a "
            "rotation of their own.",
        ),
    ),
    "Servers": (
        Setting("RESURGE_HOME", "home", "Directory of everything that is written on this host.", True),
        Setting("RESURGE_DATABASE_URL", "database_url", "The database: the truth for history.", True),
        Setting("RESURGE_REDIS_URL", "redis_url", "Redis: messages and telemetry, nothing that "
                                                  "must be kept.", True),
        Setting("RESURGE_ZOOKEEPER", "zookeeper", "ZooKeeper: the truth for coordination.", True),
        Setting(
            "RESURGE_ZOOKEEPER_SECRET", "zookeeper_secret",
            "Only processes with it read and change the product's znodes. `make up` makes one.", True,
        ),
        Setting("RESURGE_PORT", "port", "Port of the web server."),
        Setting(
            "RESURGE_ALLOWED_HOSTS", "allowed_hosts",
            "Names under which browsers may reach this server.", True,
        ),
        Setting(
            "RESURGE_WEBHOOK_NETWORKS", "webhook_networks",
            "Private address ranges that webhooks may reach; all others that are not public are refused.",
        ),
        Setting(
            "RESURGE_SECRET_KEY", "secret_key",
            "Signs sessions; the secrets of webhooks are derived from it. Without one, sessions end with the "
            "process. All processes need the same.", True,
        ),
        Setting(
            "RESURGE_HTTPS", "https",
            "Browsers must use TLS: cookies are sent over it only, and plain requests are "
            "redirected. 0: a demo.",
        ),
        Setting("RESURGE_HSTS", "hsts", "Seconds for which browsers insist on TLS after their "
                                        "first visit (HSTS)."),
        Setting(
            "RESURGE_RATE_LIMIT_TOKEN", "rate_limit_token",
            "How many requests each API token may send: <count>/second, /minute or /hour, or off.",
        ),
        Setting(
            "RESURGE_RATE_LIMIT_PAGE", "rate_limit_page", "The same for each user's pages.",
        ),
        Setting(
            "RESURGE_RATE_LIMIT_ANONYMOUS", "rate_limit_anonymous",
            "The same for each address, for requests without a known user: sign-in attempts and "
            "invalid tokens.",
        ),
        Setting(
            "RESURGE_LOGIN_FAILURES", "login_failures",
            "After this many wrong passwords for a user from one address, further attempts from "
            "there must wait.",
        ),
        Setting("RESURGE_LOGIN_LOCK", "login_lock", "How long they must wait, in seconds."),
        Setting("RESURGE_LOG_LEVEL", "log_level", "What is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL."),
        Setting(
            "RESURGE_DEBUG", "debug",
            "Django's debugging pages, which show secrets. Only for development.",
        ),
    ),
}  # fmt: skip


def groups_shown(
    environment: Environment, role: str | None, variables: Mapping[str, str] | None = None
) -> dict[str, list[Shown]]:
    """The settings in force by group, without those that `role` may not see, and without secrets."""
    given = os.environ if variables is None else variables
    return {
        name: [
            Shown(
                variable=setting.variable,
                value=_value(environment, setting),
                given=bool(given.get(setting.variable, "").strip()),
                effect=setting.effect,
            )
            for setting in settings
            if role == ADMINISTRATOR or not setting.private
        ]
        for name, settings in GROUPS.items()
        if role == ADMINISTRATOR or not all(setting.private for setting in settings)
    }


def problems_shown() -> QuerySet[Problem]:
    """The newest problems that belong to no topology, such as values that cannot be used."""
    return Problem.objects.filter(topology=None)[:PROBLEMS]


def _value(environment: Environment, setting: Setting) -> str:
    value = getattr(environment, setting.field)
    return _AS_TEXT.get(type(value), _text)(value) if setting.field not in _SECRET else HIDDEN


def _text(value: Any) -> str:
    return masked(str(value))


_SECRET = frozenset({"secret_key", "zookeeper_secret", "spark_secret", "checkpoints_password"})
_AS_TEXT: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "on" if value else "off",
    float: lambda value: f"{value:.12g}",
    tuple: lambda value: ", ".join(map(str, value)) or "none",
}
