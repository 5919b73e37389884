"""Log levels: two loggers, one of which inherits from the other."""

from __future__ import annotations

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.config.log_levels import BROKER_LOGGER, ROOT_LOGGER, LogLevelRequestError, LogLevels


def test_the_broker_logger_has_the_level_of_the_root_until_it_has_its_own() -> None:
    levels = LogLevels()
    received: list[str] = []
    levels.subscribe(received.append)
    levels.set(ROOT_LOGGER, "WARN")
    levels.set(BROKER_LOGGER, "DEBUG")
    levels.set(ROOT_LOGGER, "ERROR")
    levels.unset(BROKER_LOGGER)
    assert received == ["WARN", "DEBUG", "DEBUG", "ERROR"]
    assert levels.effective == {BROKER_LOGGER: "ERROR", ROOT_LOGGER: "ERROR"}


def test_the_initial_level_can_be_set() -> None:
    levels = LogLevels()
    levels.set_initial_level("ERROR")
    assert levels.level_of(BROKER_LOGGER) == "ERROR"


def test_unknown_loggers_and_levels_are_rejected() -> None:
    levels = LogLevels()
    with pytest.raises(ConfigError, match="Logger unknown does not exist!"):
        levels.check_set("unknown", "INFO")
    with pytest.raises(ConfigError, match="is not a supported log level"):
        levels.check_set(ROOT_LOGGER, "LOUD")
    with pytest.raises(LogLevelRequestError, match="root logger is not allowed"):
        levels.check_unset(ROOT_LOGGER)
    levels.check_unset(BROKER_LOGGER)
