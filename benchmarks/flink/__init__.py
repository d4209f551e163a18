"""Apache Flink on the same input, queries, quotas and failures as Resurge, for comparison."""
