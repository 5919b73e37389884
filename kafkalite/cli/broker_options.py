"""Options of a broker as arguments of a command line parser."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterable

    from kafkalite.config.options import Option


def add_broker_options(parser: ArgumentParser, options: Iterable[Option]) -> None:
    """Add these options to `parser`, in one group for each section."""
    groups = {}
    for option in options:
        if option.flag is None:
            continue
        if option.section not in groups:
            groups[option.section] = parser.add_argument_group(option.section)
        groups[option.section].add_argument(option.flag, **argument(option))


def argument(option: Option) -> dict[str, Any]:
    """Return the keyword arguments of `ArgumentParser.add_argument` for an option."""
    found: dict[str, Any] = {"help": option.help_text.replace("%", "%%")}
    if option.is_switch:
        return {**found, "action": "store_true"}
    if option.metavar is not None:
        found["metavar"] = option.metavar
    if option.choices:
        found["choices"] = option.choices
    if option.parse is not None:
        found["type"] = _with_message(option.parse)
    if option.implied is not None:
        found |= {"nargs": "?", "const": option.implied}
    if option.is_repeatable:
        return {**found, "action": "append", "default": []}
    return {**found, "default": option.default}


def _with_message(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return `parse` with errors that argparse prints: it replaces the text of a ValueError."""

    def parse_argument(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error

    return parse_argument
