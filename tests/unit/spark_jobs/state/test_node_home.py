from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.state.node_home import forget_up_to, topologies_kept

OTHERS = ("V-0", "007x", "-3", "5.0", "٣", "..5", " 4", "+4")
"""Of versions without this layout, or made by hand: none is the number of a deployment."""


def below(home: Path) -> set[str]:
    return {
        str(path.relative_to(home)) for path in home.rglob("*") if path.is_dir() and not any(path.iterdir())
    }


def filled(home: Path, *directories: str) -> None:
    for one in directories:
        (home / one).mkdir(parents=True)


def test_deployments_up_to_a_number_are_forgotten(tmp_path: Path) -> None:
    filled(
        tmp_path,
        *(f"{kind}/t/{deployed}" for kind in ("state", "buffers") for deployed in (1, 7, 8, 70)),
        *(f"state/t/{name}" for name in OTHERS),
        *(f"snapshots/t/{name}" for name in ("30.2.0.7", "30.2.0.8", "30.2.0", "30.2", "x", "9.9.9.9.9")),
        *("state/other/1", "buffers/t2/1", "snapshots/u/30.2.0.7", "work/t/app-1", "spark/t/1"),
    )
    found = forget_up_to(tmp_path, "t", 7, gone=False)
    assert len(found) == 4 + len(OTHERS) + 4
    assert below(tmp_path) == {
        *("state/t/8", "state/t/70", "buffers/t/8", "buffers/t/70"),
        *("snapshots/t/30.2.0.8", "snapshots/t/9.9.9.9.9"),
        *("state/other/1", "buffers/t2/1", "snapshots/u/30.2.0.7", "work/t/app-1", "spark/t/1"),
    }


def test_nothing_is_forgotten_where_no_deployment_is_over(tmp_path: Path) -> None:
    filled(tmp_path, "state/t/0", "state/t/1", "snapshots/t/1.1.0.0")
    assert forget_up_to(tmp_path, "t", -1, gone=False) == []
    assert below(tmp_path) == {"state/t/0", "state/t/1", "snapshots/t/1.1.0.0"}


def test_empty_directories_go_with_a_topology_that_is_gone(tmp_path: Path) -> None:
    filled(tmp_path, "state/t/1", "buffers/t/9", "snapshots/t")
    forget_up_to(tmp_path, "t", 3, gone=True)
    assert below(tmp_path) == {"state", "snapshots", "buffers/t/9"}
    assert topologies_kept(tmp_path) == {"t"}
    forget_up_to(tmp_path, "t", 9, gone=True)
    assert topologies_kept(tmp_path) == set()


def test_what_links_lead_to_is_left_alone(tmp_path: Path) -> None:
    home, other = tmp_path / "node-1", tmp_path / "other"
    filled(other, "1/kept", "t/1/kept")
    filled(home, "state/t", "buffers")
    (home / "state" / "t" / "1").symlink_to(other / "1")
    (home / "state" / "t" / "file").touch()
    (home / "buffers" / "t").symlink_to(other / "t")
    assert topologies_kept(home) == {"t"}
    forget_up_to(home, "t", 5, gone=True)
    assert below(other) == {"1/kept", "t/1/kept"}


@pytest.mark.parametrize("kind", ["state", "buffers", "snapshots"])
def test_a_file_in_the_place_of_a_directory_is_no_error(tmp_path: Path, kind: str) -> None:
    (tmp_path / kind).mkdir()
    (tmp_path / kind / "t").touch()
    forget_up_to(tmp_path, "t", 5, gone=True)
    assert topologies_kept(tmp_path) == set()
