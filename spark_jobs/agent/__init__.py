"""The agent of one node: registration, heartbeats, executors and checkpoint uploads."""
