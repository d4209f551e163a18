"""The picture of docs/cli.md: `python -m tests.unit.cli.picture docs/images/watch.svg`.

`resurge watch` as it shows the seeded demo in the middle of a recovery, exported by rich. Its fonts are
those of the browser that shows it: nothing is loaded from elsewhere.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from pathlib import Path

import httpx
from rich.console import Console

from cli.live.state import State
from cli.live.view import Link, view
from tests.browser.serve import USER
from tests.unit.cli.serving import Server, token_make

WIDTH = 100
SHOWN_AS = "https://resurge.example.com"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    with tempfile.TemporaryDirectory(prefix="resurge-picture-") as home:
        server = Server(Path(home), "broken")
        try:
            headers = {"Authorization": f"Bearer {token_make(server.url, USER)}"}
            snapshot = httpx.get(f"{server.url}/api/v1/snapshot/", headers=headers, timeout=30).json()
        finally:
            server.stop()
    shown = State()
    shown.load(snapshot)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(view(shown, Link(SHOWN_AS, True, ""), WIDTH))
    svg = console.export_svg(title="resurge watch")
    file.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
