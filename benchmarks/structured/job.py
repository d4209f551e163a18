"""The driver of a Structured Streaming application: windows of hashtags, one streaming query for each.

`python -m benchmarks.structured.job <settings>`, a JSON object of the fields of `Job`. Each micro-batch
becomes one line of JSON in `progress`, as Spark reports it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WINDOWS = {"O0": (10, 5), "O1": (20, 10), "O2": (30, 10), "O3": (60, 20)}
"""Query -> length and slide of its window, in seconds, as in the pipeline of fifteen queries."""
SOURCE = "resurge.benchmark.PacedTexts"
POLL = 0.5


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """texts: a file written by `benchmarks.flink.checking.texts_write`. rate: of them per second, repeated.
    partitions: of the source and of state."""

    master: str
    texts: str
    rate: int
    queries: list[str]
    partitions: int
    checkpoints: str
    progress: str
    configuration: dict[str, str]


def main() -> int:
    job = msgspec.json.decode(sys.argv[1], type=Job)
    spark = _session(job)
    started = [_start(job, spark, name) for name in job.queries]
    with open(job.progress, "a", encoding="utf-8") as file:
        told: dict[str, int] = {}
        while all(query.isActive for query in started):
            for query in started:
                for batch in query.recentProgress:
                    if batch.batchId > told.get(str(query.name), -1):
                        told[str(query.name)] = batch.batchId
                        file.write(" ".join(batch.json.split()) + "\n")
            file.flush()
            time.sleep(POLL)
    for query in started:
        if error := query.exception():
            print(error, file=sys.stderr)
    return 1


def _session(job: Job) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().master(job.master).appName("structured")
    for key, value in job.configuration.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start(job: Job, spark: SparkSession, name: str) -> StreamingQuery:
    from pyspark.sql import functions as f

    size, slide = WINDOWS[name]
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
    read = spark.readStream.format(SOURCE).options(path=job.texts, rate=job.rate, partitions=job.partitions)
    tweets = read.load().withWatermark("timestamp", "0 seconds")
    # As Python has it, letters of all alphabets are letters.
    found = f.regexp_extract_all(f.lower("text"), f.lit(r"(?U)#(\w+)"), f.lit(1))
    tags = tweets.select("timestamp", f.explode(found).alias("tag"))
    counts = tags.groupBy(f.window("timestamp", f"{size} seconds", f"{slide} seconds"), "tag").count()
    return (
        counts.writeStream.format("noop")
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", str(Path(job.checkpoints) / name))
        .trigger(processingTime="1 second")
        .start()
    )


if __name__ == "__main__":
    sys.exit(main())
