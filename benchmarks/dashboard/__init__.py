"""The dashboard over a large fleet: `python -m benchmarks.dashboard`."""
