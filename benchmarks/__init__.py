"""Benchmarks: `python -m benchmarks.<name> [--quick] [--json FILE] [--plot FILE]`."""
