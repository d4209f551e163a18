"""`python -m controlplane.results`: one question on the standard input, its reply on the standard output;
with the argument `compare`, one comparison of tentative rows.

The limits hold also where DuckDB does not keep to its own. No Django here: the process is to start quickly.
"""

from __future__ import annotations

import os
import resource
import sys

import msgspec

from controlplane.results.comparing import compare
from controlplane.results.messages import comparison_decoder, question_decoder
from controlplane.results.reading import answer

COMPARE = "compare"
CPU = 20
"""Seconds."""
ADDRESSES = 2 * 1024**3
"""Bytes of address space, which is several times what is used."""


def main() -> None:
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    asked = sys.stdin.buffer.read()
    if sys.argv[1:] == [COMPARE]:
        sys.stdout.buffer.write(msgspec.json.encode(compare(comparison_decoder.decode(asked))))
        return
    sys.stdout.buffer.write(msgspec.json.encode(answer(question_decoder.decode(asked))))


if __name__ == "__main__":
    main()
