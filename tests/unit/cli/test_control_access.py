"""The options for the token and the certificate of a control API."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.control_access import add_token_options, token_from

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture(autouse=True)
def _visible_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an option be hidden in the arguments of a process that is not this one."""
    monkeypatch.setattr(sys, "argv", ["kafkalite"])


def token_of(*arguments: str) -> str | None:
    parser = ArgumentParser()
    add_token_options(parser)
    return token_from(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "variable", "token"),
    [
        ((), "", None),
        ((), "from-the-environment", "from-the-environment"),
        ((), "auto", None),
        (("--control-token", "a-token"), "from-the-environment", "a-token"),
        (("--control-token", "@file"), "", "@file"),
    ],
)
def test_a_token_comes_from_an_option_or_from_the_environment(
    arguments: Sequence[str], variable: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKALITE_CONTROL_TOKEN", variable)
    assert token_of(*arguments) == token
