"""The table of broker options, and that each user of the table agrees with it."""

from __future__ import annotations

import inspect
import re
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.serve import add_options
from kafkalite.config.options import (
    BROKERS,
    CONTROL_TOKEN,
    KEEP_SECRETS,
    LOG_LEVEL,
    OPTIONS,
    PORT,
    ROTATE_BYTES,
    ROTATE_SECONDS,
    SCHEMA_REGISTRY_URL,
    TLS,
    TRUNCATE_RECORDS,
    VARIABLE_PREFIX,
    Option,
)
from kafkalite.lab.replay.standin.preparation import Match, OnMiss
from kafkalite.server.logging import Level
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterable


def option_named(name: str) -> Option:
    (option,) = (each for each in OPTIONS if each.name == name)
    return option


def test_names_of_options_are_unique() -> None:
    for names in (
        [option.name for option in OPTIONS],
        [option.keyword.name for option in OPTIONS if option.keyword is not None],
        [option.variable.name for option in OPTIONS if option.variable is not None],
    ):
        assert len(names) == len(set(names))


def test_every_variable_has_the_prefix() -> None:
    assert all(
        option.variable.name.startswith(VARIABLE_PREFIX)
        for option in OPTIONS
        if option.variable is not None
    )


def test_a_help_text_is_a_phrase_without_a_full_stop() -> None:
    assert [
        option.name for option in OPTIONS if not re.fullmatch(r"[a-z].*[^.]", option.help)
    ] == []


def test_an_option_without_flag_is_a_keyword() -> None:
    assert (PORT.name, PORT.dest) == ("port", "port")
    assert all(option.keyword is not None for option in OPTIONS if option.flag is None)


def test_broker_has_the_keywords_of_the_table_with_their_defaults() -> None:
    parameters = inspect.signature(Broker).parameters
    keywords = [option.keyword for option in OPTIONS if option.keyword is not None]
    assert {name: each.default for name, each in parameters.items()} == {
        keyword.name: keyword.default for keyword in keywords
    }
    documented = set(re.findall(r"^\s*- `(\w+)`: ", Broker.__doc__ or "", re.MULTILINE))
    assert documented == set(parameters)


def test_serve_has_the_flags_of_the_table_with_their_defaults() -> None:
    parser = ArgumentParser(add_help=False)
    add_options(parser)
    defaults = vars(parser.parse_args([]))
    assert defaults == {
        option.dest: _parsed_default(option) for option in OPTIONS if option.flag is not None
    }


def _parsed_default(option: Option) -> object:
    if option.is_switch:
        return False
    return [] if option.is_repeatable else option.default


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("match", Match),
        ("on-miss", OnMiss),
        ("log-level", (level.lower() for level in Level.__members__)),
    ],
)
def test_choices_are_those_of_the_code(name: str, words: Iterable[str]) -> None:
    assert set(option_named(name).choices) == {str(word) for word in words}


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (BROKERS, "3", 3),
        (TRUNCATE_RECORDS, "0", 0),
        (ROTATE_BYTES, "64m", 64 * 1024**2),
        (ROTATE_SECONDS, "0.5", 0.5),
        (TLS, "auto", "auto"),
        (TLS, "auto:/a:b", "auto:/a:b"),
        (CONTROL_TOKEN, "auto", "auto"),
        (CONTROL_TOKEN, "@/run/secrets/token", "@/run/secrets/token"),
        (CONTROL_TOKEN, "a-Token.of_tests~+/==", "a-Token.of_tests~+/=="),
        (SCHEMA_REGISTRY_URL, "http://[::1]:8081", "http://[::1]:8081"),
        (SCHEMA_REGISTRY_URL, "https://a:b@r.example/v7", "https://a:b@r.example/v7"),
    ],
)
def test_a_valid_text_is_parsed(option: Option, text: str, value: object) -> None:
    assert option.parse is not None
    assert option.parse(text) == value


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        (BROKERS, "0", "is not a number from 1 to 1000"),
        (TRUNCATE_RECORDS, "-1", "is not a number of bytes"),
        (ROTATE_BYTES, "1k", "is not a size of 64k or more"),
        (ROTATE_SECONDS, "nan", "is not a number of seconds"),
        (TLS, "on", "write auto or auto:DIR"),
        (TLS, "auto:", "write auto or auto:DIR"),
        (CONTROL_TOKEN, "short", "^a token has 8 to 1024 letters"),
        (CONTROL_TOKEN, "@", "^a token has 8 to 1024 letters"),
        (CONTROL_TOKEN, "words and spaces", "^a token has 8 to 1024 letters"),
        (CONTROL_TOKEN, "ä-token-of-tests", "^a token has 8 to 1024 letters"),
    ],
)
def test_an_invalid_text_is_rejected(option: Option, text: str, reason: str) -> None:
    assert option.parse is not None
    with pytest.raises(ValueError, match=reason):
        option.parse(text)


def test_the_help_ends_with_the_default() -> None:
    assert LOG_LEVEL.help_text.endswith(" [info]")
    assert KEEP_SECRETS.help_text.endswith(" [overwritten]")
