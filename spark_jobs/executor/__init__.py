"""What runs on a node inside Spark's Python workers: one task per level and node."""
