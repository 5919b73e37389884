"""Log levels: two loggers, one of which follows the other."""

from __future__ import annotations

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.config.log_levels import BROKER, ROOT, LogLevelRequestError, LogLevels


def test_the_broker_follows_the_root_until_it_has_a_level_of_its_own() -> None:
    levels = LogLevels()
    heard: list[str] = []
    levels.subscribe(heard.append)
    levels.set(ROOT, "WARN")
    levels.set(BROKER, "DEBUG")
    levels.set(ROOT, "ERROR")
    levels.unset(BROKER)
    assert heard == ["WARN", "DEBUG", "DEBUG", "ERROR"]
    assert levels.effective == {BROKER: "ERROR", ROOT: "ERROR"}


def test_a_process_says_how_loud_it_begins() -> None:
    levels = LogLevels()
    levels.begin("ERROR")
    assert levels.level_of(BROKER) == "ERROR"


def test_there_are_no_other_loggers_and_levels() -> None:
    levels = LogLevels()
    with pytest.raises(ConfigError, match="Logger nobody does not exist!"):
        levels.check_set("nobody", "INFO")
    with pytest.raises(ConfigError, match="is not a supported log level"):
        levels.check_set(ROOT, "LOUD")
    with pytest.raises(LogLevelRequestError, match="root logger is not allowed"):
        levels.check_unset(ROOT)
    levels.check_unset(BROKER)
