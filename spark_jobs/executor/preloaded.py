"""The process on each executor that Spark forks Python workers from, with all loaded that a task needs.

It stands in for Spark's own (`spark.python.daemon.module`), which loads nothing, so that every new worker
imports for itself: about a second of CPU here. Spark ends the workers of a job that is cancelled, and that
second would come back on every healthy node at once whenever a node is lost in the middle of a job.
"""

from __future__ import annotations

import gc
import os

# Its threads would not be there after a fork. To be said before numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import spark_jobs.executor.task  # noqa: F401

if __name__ == "__main__":
    # What is loaded stays, and workers share it: they need not look through it after every task.
    gc.freeze()
    try:
        manager()
    finally:
        # Or what ends here would be called leaked.
        gc.unfreeze()
