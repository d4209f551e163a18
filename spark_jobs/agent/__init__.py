"""The agent of one node: registration, heartbeats, Spark workers and checkpoint uploads."""
