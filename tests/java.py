"""The Java process behind a Spark context of the tests' own process."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext


def java_end(gateway: Any) -> None:
    """End it, after its context was stopped. The next context of this process starts another one: only that
    sees the environment as it is then."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None
