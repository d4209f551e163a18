"""A made-up stream of page views on the servers of one site, for trying `top-pages` without data of your
own.

Pages follow a Zipf law on each server, in an order that differs from server to server; some servers get many
times the views of others. The same arguments give the same file, byte for byte.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from host.durable import temporary_name

PAGES: Final = 2_000
SERVERS: Final = 28
_EXPONENT: Final = 0.9
_SERVER_EXPONENT: Final = 0.7
_OWN_ORDER: Final = 40
"""How many places a page's rank differs between servers, at most."""


def page_views_table(views: int, seed: int) -> pa.Table:
    """Columns `page_id` (int32) and `server_id` (int16)."""
    random = np.random.Generator(np.random.PCG64(seed))
    servers = random.choice(SERVERS, views, p=_zipf(SERVERS, _SERVER_EXPONENT))
    ranks = random.choice(PAGES, views, p=_zipf(PAGES, _EXPONENT))
    moved = ranks + np.arange(SERVERS)[servers] * 7 % _OWN_ORDER
    pages = 100_000 + moved % PAGES * 37
    return pa.table(
        {"page_id": pa.array(pages.astype(np.int32)), "server_id": pa.array((servers + 1).astype(np.int16))}
    )


def _zipf(size: int, exponent: float) -> Any:
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    return weights / weights.sum()


def page_views_write(path: Path, views: int = 200_000, seed: int = 7) -> Path:
    """Write the sample as Parquet, atomically; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)  # other drivers may make the same file now
    try:
        pq.write_table(page_views_table(views, seed), temporary, compression="snappy")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
