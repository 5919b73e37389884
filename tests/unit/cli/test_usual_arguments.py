"""Usual arguments of `serve`: their values are those of argparse, which decides about others."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.parsing import new_parser
from kafkalite.cli.usual_arguments import parse_usual
from kafkalite.config.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.options import Option

_OF_PARSER = {"run", "parser", "new_parser"}
_TEXTS = ("1", "64k", "512m", "auto", "text-1", "a=b", "info", "json", "http://localhost:8081")


def values_of_argparse(given: Sequence[str]) -> dict[str, object]:
    parsed = new_parser(["serve"]).parse_args(["serve", *given], Namespace())
    return {name: value for name, value in vars(parsed).items() if name not in _OF_PARSER}


def text_for(option: Option) -> str:
    for text in (*option.choices, *_TEXTS):
        try:
            if option.parse is not None:
                option.parse(text)
        except ValueError:
            continue
        return text
    raise AssertionError(option.name)


WITH_VALUE = [option for option in OPTIONS if option.flag and not option.is_switch]


def test_no_arguments_have_the_defaults_of_argparse() -> None:
    parsed = parse_usual([], OPTIONS)
    assert parsed is not None
    assert vars(parsed) == values_of_argparse([])


@pytest.mark.parametrize("option", WITH_VALUE, ids=lambda option: option.name)
def test_values_are_those_of_argparse(option: Option) -> None:
    text = text_for(option)
    for given in ([str(option.flag), text], [f"{option.flag}={text}", str(option.flag), text]):
        parsed = parse_usual(given, OPTIONS)
        if option.implied is not None:
            assert parsed is None
        else:
            assert parsed is not None
            assert vars(parsed) == values_of_argparse(given)


def test_switches_are_true() -> None:
    flags = [str(option.flag) for option in OPTIONS if option.flag and option.is_switch]
    parsed = parse_usual(flags, OPTIONS)
    assert flags
    assert parsed is not None
    assert vars(parsed) == values_of_argparse(flags)


@pytest.mark.parametrize(
    "given",
    [
        ["--help"],
        ["--unknown", "1"],
        ["--brokers"],
        ["--brokers", "none"],
        ["--brokers="],
        ["--data-dir", "-x"],
        ["--memory=true"],
        ["--log-level", "loud"],
        ["--"],
        ["extra"],
    ],
    ids=" ".join,
)
def test_argparse_decides_about_others(given: Sequence[str]) -> None:
    assert parse_usual(given, OPTIONS) is None
