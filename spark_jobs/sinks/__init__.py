"""Sinks: where the rows of output operators go, once per (query, epoch)."""
