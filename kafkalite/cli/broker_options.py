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
        groups[option.section].add_argument(option.flag, **add_argument_keywords(option))


def add_argument_keywords(option: Option) -> dict[str, Any]:
    """Return the keyword arguments of `ArgumentParser.add_argument` for an option."""
    keywords: dict[str, Any] = {"help": option.help_text.replace("%", "%%")}
    if option.is_switch:
        return {**keywords, "action": "store_true"}
    if option.metavar is not None:
        keywords["metavar"] = option.metavar
    if option.choices:
        keywords["choices"] = option.choices
    if option.parse is not None:
        keywords["type"] = _with_argparse_error(option.parse)
    if option.implied is not None:
        keywords |= {"nargs": "?", "const": option.implied}
    if option.is_repeatable:
        return {**keywords, "action": "append", "default": []}
    return {**keywords, "default": option.default}


def _with_argparse_error(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return `parse` with errors whose text argparse prints; it ignores the text of ValueError."""

    def parse_argument(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error

    return parse_argument
