"""The process on each executor that Spark forks Python workers from, with all loaded that a task needs.

It stands in for Spark's own (`spark.python.daemon.module`), which loads nothing, so that every new worker
imports for itself: about a second of CPU here. Spark ends the workers of a job that is cancelled, and that
second would come back on every healthy node at once whenever a node is lost in the middle of a job.

pyarrow loads pandas and parts of itself when they are first needed: pandas with the first array that is made
of something, since that may be one of pandas'; the others to group and to read. They are named here.
"""

from __future__ import annotations

import gc
import importlib
import os

# Its threads would not be there after a fork. To be said before numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from pyspark.daemon import manager

from spark_jobs.executor.loaded import set_apart

LOADED = (
    "pandas",
    "pyarrow.acero",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "pyspark.worker",
    "spark_jobs.executor.handover",
    "spark_jobs.executor.stages",
    "spark_jobs.executor.task",
    "spark_jobs.executor.warm_up",
)
for _name in LOADED:
    importlib.import_module(_name)

if __name__ == "__main__":
    # What is loaded stays, and workers share it: they need not look through it after every task.
    set_apart()
    try:
        manager()
    finally:
        # Or what ends here would be called leaked.
        gc.unfreeze()
