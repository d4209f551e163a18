from __future__ import annotations

import os
from pathlib import Path

import pytest

from host.environment import read
from supervision.__main__ import _options_from_environment, main
from supervision.installation import compose
from supervision.profiles import (
    DEFAULT,
    PROFILES,
    ROOMY,
    SCARCE,
    InvalidProfile,
    profile_choose,
    profile_keep,
    profile_named,
)
from supervision.start import StartOptions

OPTIONS = ("PROFILE", "PIPELINE", "INPUT", "RATE", "LIMIT", "NODES", "STANDBYS", "SLOTS", "CAPACITY")


@pytest.fixture(autouse=True)
def _nothing_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RESURGE_") or name in OPTIONS:
            monkeypatch.delenv(name)


def test_a_new_home_has_the_default(tmp_path: Path) -> None:
    chosen = profile_choose(tmp_path, "")
    assert (chosen.profile, chosen.changes) == (DEFAULT, False)


def test_a_new_home_has_the_profile_that_is_named(tmp_path: Path) -> None:
    for profile in PROFILES.values():
        chosen = profile_choose(tmp_path, profile.name)
        assert (chosen.profile, chosen.changes) == (profile, False)


def test_roomy_is_what_it_was() -> None:
    assert (ROOMY.nodes, ROOMY.slots, ROOMY.capacity, ROOMY.cpu_request) == (4, 2, 100, None)
    assert ROOMY.settings == {"RESURGE_REPLACEMENT_DELAY": "uniform:6:15"}
    assert StartOptions().deployed_cpu_request == "", "queries request what the pipeline says"


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_settings_of_a_profile_can_be_read(name: str) -> None:
    profile = PROFILES[name]
    assert profile.name == name
    assert read(profile.settings).replacement_delay.high > 0
    assert all(setting.startswith("RESURGE_") for setting in profile.settings)


@pytest.mark.parametrize("name", ["plenty", "scarce,roomy", "1", "../roomy"])
def test_another_name_is_refused_with_those_there_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidProfile, match="give scarce or roomy") as refused:
        profile_choose(tmp_path, name)
    assert f"PROFILE={name}" in str(refused.value)


def test_a_name_may_be_written_in_capitals() -> None:
    assert profile_named("Roomy") is ROOMY


def test_make_up_says_what_is_wrong_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RESURGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PROFILE", "plenty")
    monkeypatch.setattr("sys.argv", ["supervision", "up"])
    assert main() == 2
    assert capsys.readouterr().err == "PROFILE=plenty: give scarce or roomy\n"
    assert not (tmp_path / "home").exists()


# ---- the next start ------------------------------------------------------------------------------


def test_the_profile_lasts(tmp_path: Path) -> None:
    profile_keep(tmp_path, ROOMY, settled=True)
    for named in ("", "roomy"):
        chosen = profile_choose(tmp_path, named)
        assert (chosen.profile, chosen.changes) == (ROOMY, False)


def test_another_profile_changes_what_is_there(tmp_path: Path) -> None:
    profile_keep(tmp_path, SCARCE, settled=True)
    chosen = profile_choose(tmp_path, "roomy")
    assert (chosen.profile, chosen.changes) == (ROOMY, True)


def test_a_change_that_was_interrupted_is_made_at_the_next_start(tmp_path: Path) -> None:
    profile_keep(tmp_path, SCARCE, settled=True)
    profile_keep(tmp_path, ROOMY, settled=False)
    chosen = profile_choose(tmp_path, "")
    assert (chosen.profile, chosen.changes) == (ROOMY, True)


def test_a_home_from_before_profiles_stays_roomy(tmp_path: Path) -> None:
    compose(tmp_path)
    assert profile_choose(tmp_path, "").profile is ROOMY
    assert not profile_choose(tmp_path, "").changes
    assert profile_choose(tmp_path, "scarce").changes


@pytest.mark.parametrize("content", ["", "roomy", '{"name": "plenty"}', '{"name": 1}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "profile.json").write_text(content)
    assert profile_choose(tmp_path, "").profile is DEFAULT


# ---- what goes before a profile ------------------------------------------------------------------


def test_settings_of_the_shell_go_before_those_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(SCARCE.settings).replacement_delay
    assert compose(tmp_path, SCARCE.settings).settings.replacement_delay == expected
    monkeypatch.setenv("RESURGE_REPLACEMENT_DELAY", "fixed:7")
    assert compose(tmp_path, SCARCE.settings).settings.replacement_delay.high == 7
    monkeypatch.setenv("RESURGE_REPLACEMENT_DELAY", "")
    assert compose(tmp_path, SCARCE.settings).settings.replacement_delay == expected


def test_a_setting_of_the_last_start_does_not_last(tmp_path: Path) -> None:
    compose(tmp_path, SCARCE.settings)
    assert compose(tmp_path, ROOMY.settings).settings.replacement_delay.high == 15


def test_options_are_those_of_the_profile_unless_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = _options_from_environment(profile_choose(tmp_path, "scarce"))
    assert (options.nodes, options.slots, options.capacity) == (SCARCE.nodes, SCARCE.slots, SCARCE.capacity)
    assert options.deployed_cpu_request == str(SCARCE.cpu_request)
    assert not options.source.named, "a running main job is left alone"
    assert options.standbys == 0
    monkeypatch.setenv("NODES", "6")
    monkeypatch.setenv("STANDBYS", "2")
    monkeypatch.setenv("CAPACITY", "55")
    monkeypatch.setenv("RATE", "700")
    options = _options_from_environment(profile_choose(tmp_path, "scarce"))
    assert (options.nodes, options.slots, options.capacity) == (6, SCARCE.slots, 55)
    assert options.standbys == 2
    assert options.rate == "700"
    assert options.source.named


def test_requests_are_those_of_the_main_job_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE", "trending")
    assert _options_from_environment(profile_choose(tmp_path, "scarce")).deployed_cpu_request == ""


def test_scarce_nodes_have_room_for_four_queries_each_and_two_nodes_not_for_all() -> None:
    room = SCARCE.capacity * 0.8
    request = (SCARCE.cpu_request or 0.0) * 100
    for overhead in (6.0, 19.0):
        assert (room - overhead) // request == 4
    assert 2 * 4 < 15 <= SCARCE.nodes * 4


def test_only_the_main_job_gets_the_sample_of_tweets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`top-pages` would look for page views in it."""
    choice = profile_choose(tmp_path, "roomy")
    assert _options_from_environment(choice).names_input
    monkeypatch.setenv("PIPELINE", "top-pages")
    assert not _options_from_environment(choice).names_input
    (tmp_path / "views.parquet").touch()
    monkeypatch.setenv("INPUT", str(tmp_path / "views.parquet"))
    assert _options_from_environment(choice).names_input


@pytest.mark.parametrize(
    ("name", "value"), [("NODES", "10001"), ("STANDBYS", "-1"), ("SLOTS", "0"), ("CAPACITY", "1000000000")]
)
def test_a_number_that_the_launcher_would_refuse_starts_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv("RESURGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["supervision", "up"])
    monkeypatch.setattr("supervision.__main__.start", lambda *_: pytest.fail("started"))
    assert main() == 2
    assert f"{name}={value}: give a whole number from " in capsys.readouterr().err
    assert not (tmp_path / "home").exists()
