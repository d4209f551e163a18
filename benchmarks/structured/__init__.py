"""Spark Structured Streaming under the scarcity of `benchmarks.scarcity`."""
