"""Options of a broker as arguments of a command line parser."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentTypeError
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.config.options import Option


def add_broker_options(parser: ArgumentParser, options: Iterable[Option]) -> None:
    """Add these options to `parser`, in one group for each section."""
    groups = {}
    for option in options:
        if option.flag is None:
            continue
        if option.section not in groups:
            groups[option.section] = parser.add_argument_group(option.section)
        keywords = add_argument_keywords(option)
        groups[option.section].add_argument(option.flag, **keywords)
        if option.former_flag is not None:
            add_former_flag(parser, option.former_flag, option.dest, keywords)


def add_former_flag(
    parser: ArgumentParser, flag: str, dest: str, keywords: Mapping[str, Any] | None = None
) -> None:
    """Add an earlier name of an option, which no help shows.

    `keywords` are those of `ArgumentParser.add_argument` for the option.
    """
    hidden = {**(keywords or {}), "dest": dest, "default": SUPPRESS, "help": SUPPRESS}
    parser.add_argument(flag, **hidden)


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
