"""`python -m cli`, the same as `resurge`."""

from __future__ import annotations

from cli.main import program

if __name__ == "__main__":
    program()
