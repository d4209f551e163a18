"""Recoveries in simulated time: the papers' experiment, scale, and rollback policies."""
