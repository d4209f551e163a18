"""The process on each executor that Spark forks Python workers from, with all loaded that a task needs.

It stands in for Spark's own (`spark.python.daemon.module`), which loads nothing, so that every new worker
imports for itself: about a second of CPU here. Spark ends the workers of a job that is cancelled, and that
second would come back on every healthy node at once whenever a node is lost in the middle of a job.

A node that has joined waits for this process, with a fifth of a core for seconds. So it loads PySpark from
where it is installed and not from the archive of sources that Spark puts first on the path, which would be
compiled at each start; collects no garbage meanwhile; and loads pandas only for operators of users.

pyarrow loads parts of itself when they are first needed, to group and to read. They are named here. It also
asks for pandas with the first array that is made of something, since that may be one of pandas'.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from host.absent import absent

LOADED = (
    "numpy.ma",
    "pyarrow.acero",
    "pyarrow.dataset",
    "pyspark.daemon",
    "pyspark.worker",
    "spark_jobs.executor.handover",
    "spark_jobs.executor.loaded",
    "spark_jobs.executor.stages",
    "spark_jobs.executor.task",
    "spark_jobs.executor.warm_up",
)
OPERATORS = "spark_jobs.operators"
"""The package of the operators that come with Resurge; what else is allowed is of users."""


def load() -> None:
    """All that a task needs; what is loaded stays, so no garbage is collected meanwhile."""
    gc.disable()
    archives_forget(os.environ.get("SPARK_HOME", ""))
    # Its threads would not be there after a fork. To be said before numpy is imported.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    structlog_settle()
    environment = importlib.import_module("host.environment").read()
    pyarrow_settle(pandas=any(name != OPERATORS for name in environment.operator_modules))
    for name in LOADED:
        importlib.import_module(name)
    gc.enable()


def archives_forget(spark_home: str) -> None:
    """Spark puts an archive of PySpark's sources and a jar before all else on the path; PySpark is installed,
    and each worker would read their tables of contents again."""
    for entry in list(sys.path):
        if spark_home and entry.startswith(f"{spark_home}/") and os.path.isfile(entry):
            sys.path.remove(entry)
            sys.path_importer_cache.pop(entry, None)


def structlog_settle() -> None:
    """structlog loads rich, for logs that developers read on a screen, wherever it is installed."""
    with absent("rich"):
        importlib.import_module("structlog")


def pyarrow_settle(*, pandas: bool) -> None:
    """Have pyarrow look for pandas, which it does once: with the first array. Where it finds none, it takes a
    series of pandas for any other sequence."""
    with absent(*(() if pandas else ("pandas",))):
        importlib.import_module("pyarrow").array([""])


load()

if __name__ == "__main__":
    from pyspark.daemon import manager

    from spark_jobs.executor.loaded import set_apart

    # Workers share it: they need not look through it after every task.
    set_apart()
    try:
        manager()
    finally:
        # Or what ends here would be called leaked.
        gc.unfreeze()
