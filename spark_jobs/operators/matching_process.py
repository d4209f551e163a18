"""Python's `re` in a process of its own, started by `matching` and told what to do on its standard input.

One line of JSON comes for each batch, ``{"seconds", "pattern", "group", "texts"}``, and one goes back. The
kernel ends the process when a batch has used its seconds of processor time, whatever the engine does then; it
also ends when nothing more can come. It imports the standard library only, to start in milliseconds.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from typing import Any


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        expression = re.compile(asked["pattern"])
    except (re.error, OverflowError) as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "nested too deeply"}
    group = asked["group"]
    if group is None:
        group = 1 if expression.groups == 1 else 0
    texts = asked["texts"]
    if texts is None:
        return {"groups": expression.groups, "names": [*expression.groupindex]}
    rows: list[int] = []
    keys: list[str] = []
    for row, text in enumerate(texts):
        for match in expression.finditer(text):
            key = match[group]
            if key:
                rows.append(row)
                keys.append(key)
    return {"rows": rows, "keys": keys}


def main() -> None:
    # What a process ignores or blocks, those that it starts do as well.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])
        text = json.dumps(answer(asked))
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
