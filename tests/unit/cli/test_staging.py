"""What `kafkalite serve` can be asked to replay."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.staging import add_staging_options, staged_from, told_of
from kafkalite.replay.staging import Match, OnMiss
from kafkalite.server.logging import Log
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def asked(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_staging_options(parser)
    return parser.parse_args(arguments)


def test_nothing_is_replayed_unless_asked_for() -> None:
    assert staged_from(asked(), Log()) is None


@pytest.mark.parametrize("option", [("--match", "lenient"), ("--on-miss", "live")])
def test_how_needs_what(option: tuple[str, str]) -> None:
    with pytest.raises(SettingsError, match=f"{option[0]} needs --replay"):
        staged_from(asked(*option), Log())


def test_a_seeded_broker_misses_nothing() -> None:
    with pytest.raises(SettingsError, match="answers everything itself"):
        staged_from(asked("--replay", "x", "--match", "seeded", "--on-miss", "live"), Log())


def test_a_replay_is_not_recorded_into_what_it_plays(tmp_path: Path) -> None:
    both = asked("--replay", str(tmp_path))
    both.capture = f"{tmp_path}/."
    with pytest.raises(SettingsError, match="--capture: what is recorded would be replayed"):
        staged_from(both, Log())


def test_a_capture_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--replay: no requests to replay in"):
        staged_from(asked("--replay", str(tmp_path / "gone")), Log())


def test_what_is_replayed_is_told() -> None:
    assert told_of(asked("--replay", "x")) == "answering from x, strict"
    several = asked("--replay", "x", "--replay", "y", "--match", "lenient")
    assert told_of(several) == "answering from x, y, lenient"
    assert told_of(asked("--replay", "x", "--match", "seeded")) == "begun with x"


def test_the_words_are_those_of_the_stages() -> None:
    for match in Match:
        assert asked("--replay", "x", "--match", match).match == match
    for on_miss in OnMiss:
        assert asked("--replay", "x", "--on-miss", on_miss).on_miss == on_miss
