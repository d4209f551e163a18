"""Tests and tools that drive a browser."""
