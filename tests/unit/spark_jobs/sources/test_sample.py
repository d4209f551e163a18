from __future__ import annotations

import collections
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.sources.page_views import page_views_write
from spark_jobs.sources.sample import main, sample_write


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    table = pq.read_table(sample_write(tmp_path_factory.mktemp("s") / "s.parquet", tweets=50_000))
    assert table.column_names == ["id", "text"]
    found: list[str] = table.column("text").to_pylist()
    return found


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    first = sample_write(tmp_path / "a.parquet", tweets=25_000, seed=1).read_bytes()
    assert sample_write(tmp_path / "b.parquet", tweets=25_000, seed=1).read_bytes() == first
    assert sample_write(tmp_path / "c.parquet", tweets=25_000, seed=2).read_bytes() != first


def test_hashtags_follow_zipfs_law_in_several_languages(texts: list[str]) -> None:
    tags = [tag.lower() for text in texts for tag in re.findall(r"#(\w+)", text)]
    ranked = [count for _, count in collections.Counter(tags).most_common()]
    assert len(texts) == 50_000
    assert len(ranked) > 1_500
    assert 5 < ranked[0] / ranked[9] < 20  # 10 ** 1.05 = 11
    assert 50 < ranked[0] / ranked[99] < 250
    assert {"sunrise", "wetter", "天気", "погода", "طقس", "météo"} <= set(tags)


def test_some_have_no_tags_some_several_and_case_varies(texts: list[str]) -> None:
    counts = collections.Counter(len(re.findall(r"#\w+", text)) for text in texts)
    assert 0.4 < counts[0] / len(texts) < 0.6
    assert counts[2] > 1_000
    assert counts[4] > 100
    written = {tag for text in texts for tag in re.findall(r"#(\w+)", text) if tag.lower() == "sunrise"}
    assert written == {"sunrise", "SUNRISE", "Sunrise"}


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path / "deep" / "s.parquet"), "--tweets", "1000"]) == 0
    assert "1,000 tweets" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "s.parquet"), "--tweets", "0"])
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file" / "s.parquet"), "--tweets", "10"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_two_drivers_make_page_views_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "input" / "page-views.parquet"
    write, others = pq.write_table, iter([lambda: page_views_write(path, views=100)])

    def written(table: pa.Table, where: Path, **options: str) -> None:
        write(table, where, **options)
        next(others, lambda: path)()

    monkeypatch.setattr("spark_jobs.sources.page_views.pq.write_table", written)
    assert pq.read_table(page_views_write(path, views=100)).num_rows == 100
    assert list(path.parent.iterdir()) == [path]
