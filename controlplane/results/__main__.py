"""`python -m controlplane.results`: one question on the standard input, its reply on the standard output.

The limits hold also where DuckDB does not keep to its own. No Django here: the process is to start quickly.
"""

from __future__ import annotations

import os
import resource
import sys

import msgspec

from controlplane.results.messages import question_decoder
from controlplane.results.reading import answer

CPU = 20
"""Seconds."""
ADDRESSES = 2 * 1024**3
"""Bytes of address space, which is several times what is used."""


def main() -> None:
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    question = question_decoder.decode(sys.stdin.buffer.read())
    sys.stdout.buffer.write(msgspec.json.encode(answer(question)))


if __name__ == "__main__":
    main()
