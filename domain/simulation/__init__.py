"""Deterministic simulation of failures and recoveries (pure: simulated time, nodes and faults)."""
