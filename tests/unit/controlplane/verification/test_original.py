"""The original input, as `verify` reads it again."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from controlplane.verification.original import Original, original_read
from controlplane.verification.problems import VerificationError
from controlplane.verification.rates import rates_read
from controlplane.verification.traffic import measured_read

ROWS = 500
LONG = "x" * 10_000


def read(path: Path, ts: str = "ts") -> Original:
    return original_read(path, text="text", ts=ts, ts_unit="auto")


@pytest.mark.parametrize(
    ("name", "head", "row"),
    [("a.csv.gz", "text,more\n", "t{},{}\n"), ("a.jsonl.gz", "", '{{"text": "t{}", "more": "{}"}}\n')],
)
def test_what_a_file_has_besides_is_not_kept_in_memory(
    tmp_path: Path, name: str, head: str, row: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress((head + "".join(row.format(n, LONG) for n in range(ROWS))).encode(), 1))
    tracemalloc.start()
    found = read(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.texts, found.times) == ([f"t{n}" for n in range(ROWS)], None)
    assert most < ROWS * len(LONG) // 5


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"\xef\xbb\xbftext,ts\na,1\n\xff,2\n"),
        ("a.tsv", b"\xef\xbb\xbftext\tts\na\t1\n\xff\t2\n"),
        ("a.jsonl", b'\xef\xbb\xbf{"text": "a", "ts": 1}\n\n{"text": "\xff", "ts": 2}\n'),
    ],
)
def test_a_mark_at_the_beginning_is_no_text(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    found = read(tmp_path / name)
    assert found.texts == ["a", None]
    assert found.times is not None
    assert found.times[0] == 1_000_000


def test_a_column_without_a_name_is_none_of_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",text\n0,a\n1,b\n")
    assert read(tmp_path / "a.csv", ts="").times is None


@pytest.mark.parametrize("read", [read, partial(rates_read, speedup=1, rate=None), measured_read])
def test_a_damaged_file_is_told(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "a.csv.gz"
    content = bytearray(gzip.compress(b"text,ts\n" + bytes(range(48, 58)) * 50))
    content[14:24] = b"\xff" * 10
    path.write_bytes(content)
    with pytest.raises(VerificationError, match="cannot be read"):
        read(path)


def test_an_empty_copy_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(VerificationError, match="cannot be read"):
        read(tmp_path / "a.csv")
