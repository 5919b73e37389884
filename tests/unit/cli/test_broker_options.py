"""Broker options as arguments of a parser."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

import pytest

from kafkalite.cli.broker_options import add_argument_keywords, add_broker_options
from kafkalite.config.options import (
    BROKERS,
    CONTROL,
    KEEP_SECRETS,
    OPTIONS,
    PORT,
    TOPIC,
    TRUNCATE_RECORDS,
)


def test_repeatable_option_collects_a_list() -> None:
    parser = ArgumentParser()
    add_broker_options(parser, OPTIONS)
    assert parser.parse_args(["--topic", "a:1", "--topic=b:2"]).topic == ["a:1", "b:2"]
    assert parser.parse_args([]).topic == []
    assert add_argument_keywords(TOPIC)["action"] == "append"


def test_option_without_value_has_its_implied_value() -> None:
    parser = ArgumentParser()
    add_broker_options(parser, [CONTROL])
    assert parser.parse_args(["--control"]).control == "127.0.0.1:9097"
    assert parser.parse_args(["--control", "0"]).control == "0"
    assert parser.parse_args([]).control is None


def test_switch_takes_no_value() -> None:
    assert add_argument_keywords(KEEP_SECRETS)["action"] == "store_true"


def test_option_without_flag_is_not_added() -> None:
    parser = ArgumentParser(add_help=False)
    add_broker_options(parser, [PORT])
    assert vars(parser.parse_args([])) == {}


def test_invalid_value_is_rejected_with_its_reason() -> None:
    with pytest.raises(ArgumentTypeError, match="'0' is not a number from 1 to 1000"):
        add_argument_keywords(BROKERS)["type"]("0")


@pytest.mark.parametrize("given", [["--truncate-records", "8"], ["--snap-records", "8"]])
def test_former_flag_is_accepted_but_not_shown(given: list[str]) -> None:
    parser = ArgumentParser()
    add_broker_options(parser, [TRUNCATE_RECORDS])
    assert parser.parse_args(given).truncate_records == 8
    assert parser.parse_args([]).truncate_records is None
    assert "--snap-records" not in parser.format_help()
