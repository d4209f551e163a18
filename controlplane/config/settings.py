"""Django settings, derived from ``RESURGE_*`` (see `host.environment`)."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from host import environment
from host.logs import logging_configuration

RESURGE = environment.read()

SECRET_KEY = RESURGE.secret_key
DEBUG = RESURGE.debug
# The last one is where processes of this host ask: probes, `make up`, the command line with run/access.json.
ALLOWED_HOSTS = [*RESURGE.allowed_hosts, "127.0.0.1"]
ROOT_URLCONF = "controlplane.config.urls"
ASGI_APPLICATION = "dashboard.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "dashboard",
    "controlplane.administration",
    "controlplane.accounts",
    "controlplane.events",
    "controlplane.topologies",
    "controlplane.checkpoints",
    "controlplane.nodes",
    "controlplane.incidents",
    "controlplane.health",
    "controlplane.lifecycle",
    "controlplane.replication",
    "controlplane.measurements",
    "controlplane.alerts",
    "controlplane.webhooks",
    "controlplane.verification",
    "controlplane.api",
    "workers",
    "channels",
    "rest_framework",
    "knox",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_prometheus",
    "axes",
    "controlplane.administration.django_admin.SiteConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "dashboard.middleware.SecurityHeaders",
    "dashboard.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]


TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _database() -> dict[str, Any]:
    database: dict[str, Any] = dict(environment.database_parse(RESURGE.database_url))
    if database["ENGINE"].endswith("sqlite3"):
        # Writers queue at BEGIN instead of failing at their first write; readers never wait. With NORMAL the
        # loss of power takes commits back that ZooKeeper and the epoch log already build upon.
        database["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
        if database["NAME"] != ":memory:":
            Path(database["NAME"]).parent.mkdir(parents=True, exist_ok=True)
        # A new connection reads the whole schema: more work than what the launcher asks twice a second. Not
        # for long, so that a file that was exchanged is noticed.
        database["CONN_MAX_AGE"] = 10
    else:
        database["CONN_MAX_AGE"] = 60  # of threads that stay; those of requests end (`dashboard.handler`)
        database["CONN_HEALTH_CHECKS"] = True
    return database


DATABASES = {"default": _database()}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [RESURGE.redis_url], "prefix": "resurge"},
    }
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

# ---- rules for browsers ------------------------------------------------------------------
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = RESURGE.https
SECURE_SSL_REDIRECT = RESURGE.https
# Asked for on the host itself, where there is no proxy.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = int(RESURGE.hsts) if RESURGE.https else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    # The domain's owner decides about subdomains and browsers' preload lists.
    "security.W005",
    "security.W021",
]

DEFAULT_EXCEPTION_REPORTER_FILTER = "controlplane.config.error_pages.SecretsFilter"

# ---- guessing passwords --------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AXES_FAILURE_LIMIT = RESURGE.login_failures
AXES_COOLOFF_TIME = timedelta(seconds=RESURGE.login_lock)
# Wrong passwords from one address do not lock out the user at other addresses.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "dashboard.signing_in.client_address"
AXES_LOCKOUT_CALLABLE = "dashboard.signing_in.locked_out"
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
# Locks end by themselves; ending one through the admin site would record no reason.
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = RESURGE.home / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
# Built assets are served straight from the packages; nothing has to be collected first.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.api.authentication.BearerTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.accounts.permissions.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["controlplane.api.renderers.FastJSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "controlplane.api.negotiation.StrictNegotiation",
    "DEFAULT_PARSER_CLASSES": ["controlplane.api.parsers.PlainJSONParser"],
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_THROTTLE_CLASSES": ["controlplane.api.throttling.CallerThrottle"],
    "DEFAULT_FILTER_BACKENDS": [
        "controlplane.api.filtering.ExplicitFilters",
        "controlplane.api.filtering.StrictOrdering",
        "controlplane.api.filtering.BoundedSearch",
    ],
    "DEFAULT_PAGINATION_CLASS": "controlplane.api.pagination.OffsetPagination",
    "PAGE_SIZE": 100,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.api.errors.handle",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

REST_KNOX = {
    "SECURE_HASH_ALGORITHM": "hashlib.sha512",
    "AUTH_HEADER_PREFIX": "Token",
    "TOKEN_TTL": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Resurge",
    "DESCRIPTION": "Control plane for stream-processing topologies that survive correlated "
    "failures. Every change needs a reason; asynchronous actions answer 202 with an operation.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["controlplane.accounts.permissions.RolePermission"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    # A PATCH keeps the fields that it leaves out, but its reason is required.
    "COMPONENT_SPLIT_PATCH": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "controlplane.api.schema.refusals_document",
    ],
    "ENUM_NAME_OVERRIDES": {
        "TopologyStatusEnum": "controlplane.topologies.choices.TopologyStatus",
        "QueryStatusEnum": "controlplane.topologies.choices.QueryStatus",
        "PartitionStateEnum": "controlplane.topologies.choices.PartitionState",
        "NodeStateEnum": "controlplane.nodes.choices.NodeState",
        "NodeRequestStateEnum": "controlplane.nodes.choices.NodeRequestState",
        "IncidentStateEnum": "controlplane.incidents.choices.IncidentState",
        "PlanStateEnum": "controlplane.incidents.choices.PlanState",
        "PlanKindEnum": "controlplane.incidents.choices.PlanKind",
        "CheckpointStateEnum": "controlplane.checkpoints.choices.CheckpointState",
        "OperationStateEnum": "controlplane.events.choices.OperationState",
        "OperationKindEnum": "controlplane.events.choices.OperationKind",
        "RecoveryMethodEnum": "controlplane.topologies.choices.RecoveryMethod",
        "MethodPolicyEnum": "controlplane.topologies.choices.MethodPolicy",
        "RollbackPolicyEnum": "controlplane.topologies.choices.RollbackPolicy",
        "ApprovalPolicyEnum": "controlplane.topologies.choices.ApprovalPolicy",
        "RebalancingPolicyEnum": "controlplane.topologies.choices.RebalancingPolicy",
        "AlertStateEnum": "controlplane.alerts.choices.AlertState",
        "SeverityEnum": "controlplane.topologies.choices.Severity",
        "AlertSeverityEnum": "controlplane.alerts.choices.AlertSeverity",
        "AlertComparisonEnum": "controlplane.alerts.choices.AlertComparison",
        "AlertMetricEnum": "controlplane.alerts.choices.METRIC_CHOICES",
        "MissingPolicyEnum": "controlplane.alerts.choices.MissingPolicy",
        "WebhookKindEnum": "controlplane.webhooks.choices.KIND_CHOICES",
        "DeliveryStateEnum": "controlplane.webhooks.choices.DeliveryState",
        "EventKindEnum": "controlplane.events.choices.EventKind",
        "ReplicationModeEnum": "controlplane.topologies.choices.ReplicationMode",
        "TentativeOutputEnum": "controlplane.topologies.choices.TentativeOutput",
        "ReplicationPlannerEnum": "controlplane.topologies.choices.REPLICATION_PLANNER_CHOICES",
        "PlannerEnum": "controlplane.topologies.choices.PLANNER_CHOICES",
    },
}

CELERY_BROKER_URL = RESURGE.redis_url
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
# A worker takes as many tasks as it has threads. If it counted unacknowledged messages instead (a multiplier
# of 1), it would take none any more after Redis was away for its last acknowledgements: kombu keeps such
# messages for ever, and because it then asks for no others, it does not notice that the connection is lost.
CELERY_WORKER_PREFETCH_MULTIPLIER = 0
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 60,
    "socket_timeout": 5,
    "socket_connect_timeout": 3,
    "health_check_interval": 10,
}
CELERY_TASK_DEFAULT_QUEUE = "recovery"
CELERY_TASK_ROUTES = {"webhooks.*": {"queue": "webhooks"}}
CELERY_TIMEZONE = "UTC"

LOGGING = logging_configuration(RESURGE.log_level)

TESTING = "pytest" in sys.modules
if TESTING:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    CELERY_BROKER_URL = "memory://"
    # Tests send requests faster than any limit; those about limits set their own.
    RESURGE = replace(RESURGE, rate_limit_token=None, rate_limit_page=None, rate_limit_anonymous=None)
    SECURE_SSL_REDIRECT = False
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
