"""Which process gets which secret, in its environment: every user of the host can read command lines."""

from __future__ import annotations

from collections.abc import Mapping

KEY = "RESURGE_SECRET_KEY"
DATABASE = "RESURGE_DATABASE_URL"
REDIS = "RESURGE_REDIS_URL"
ZOOKEEPER = "RESURGE_ZOOKEEPER_SECRET"
SPARK = "RESURGE_SPARK_SECRET"
CHECKPOINTS = "RESURGE_CHECKPOINTS_PASSWORD"
ADMINISTRATOR = "RESURGE_ADMIN_PASSWORD"
EXECUTOR = "_SPARK_AUTH_SECRET"
"""Spark's own name for what SPARK holds, under which an agent gives it to its executors."""
SECRETS = frozenset({KEY, DATABASE, REDIS, ZOOKEEPER, SPARK, CHECKPOINTS, ADMINISTRATOR, EXECUTOR})
"""Variables that hold a secret or, as a URL, may hold one."""

NEEDED: Mapping[str, frozenset[str]] = {
    # `manage.py` as `make up` runs it: migrations, the first administrator, the first deployment.
    "manage": frozenset({KEY, DATABASE, REDIS, ZOOKEEPER}),
    # Sessions, and the secrets of webhooks, are derived from the key.
    "web": frozenset({KEY, DATABASE, REDIS, ZOOKEEPER}),
    "webhooks": frozenset({KEY, DATABASE, REDIS}),
    "detection": frozenset({DATABASE, REDIS, ZOOKEEPER}),
    # Deletes the checkpoints of deleted topologies.
    "recovery": frozenset({DATABASE, REDIS, ZOOKEEPER, CHECKPOINTS}),
    "beat": frozenset({REDIS}),
    # Reads the specification, writes how the operation ended.
    "verify": frozenset({DATABASE, REDIS}),
    # Copies a checkpoint.
    "savepoint": frozenset({DATABASE, REDIS, CHECKPOINTS}),
    # Hands on to drivers and nodes what they need; the delays of local nodes are seeded with the key.
    "launcher": frozenset({KEY, DATABASE, REDIS, ZOOKEEPER, SPARK, CHECKPOINTS}),
    "driver": frozenset({REDIS, ZOOKEEPER, SPARK, CHECKPOINTS}),
    # The driver's JVM is told the secret by the driver, once it runs.
    "driver-jvm": frozenset(),
    "node": frozenset({ZOOKEEPER, SPARK, CHECKPOINTS}),
    # Reads Spark's secret from a file with mode 0600.
    "spark-master": frozenset(),
    # Stores the states of keys; runs operators, too.
    "keeper": frozenset({CHECKPOINTS}),
    "executor": frozenset({EXECUTOR, CHECKPOINTS}),
    # The Python processes of an executor, which run operators, and restore partitions from checkpoints.
    "operators": frozenset({CHECKPOINTS}),
    "sample": frozenset(),
    "redis": frozenset(),
    "zookeeper": frozenset(),
}


def withheld(role: str) -> frozenset[str]:
    """The variables that a process of this role does not get. Raises `KeyError` for an unknown role."""
    return SECRETS - NEEDED[role]


def environment_for(role: str, variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without the secrets that a process of this role does not need."""
    hidden = withheld(role)
    return {name: value for name, value in variables.items() if name not in hidden}
