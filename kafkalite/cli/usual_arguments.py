"""Arguments of `serve` as most users write them, parsed without argparse.

To import and prepare argparse takes a tenth of the time in which a broker starts. It parses all
other arguments, so every help and every error is argparse's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.config.options import Option


def parse_usual(given: Sequence[str], options: Iterable[Option]) -> SimpleNamespace | None:
    """Return the values of valid arguments, as argparse does; None if argparse has to decide.

    It has to for invalid arguments, former flags, optional values, and values with a dash.
    """
    by_flag = {option.flag: option for option in options if option.flag is not None}
    values: dict[str, Any] = {option.dest: _default(option) for option in by_flag.values()}
    words = iter(given)
    try:
        for word in words:
            flag, equals, text = word.partition("=")
            option = by_flag[flag]
            if option.is_switch:
                if equals:
                    return None
                values[option.dest] = True
                continue
            value = _value(option, text if equals else next(words))
            values[option.dest] = [*values[option.dest], value] if option.is_repeatable else value
    except (KeyError, StopIteration, ValueError):
        return None
    return SimpleNamespace(**values)


def _default(option: Option) -> object:
    if option.is_switch:
        return False
    if option.is_repeatable:
        return []
    if isinstance(option.default, str) and option.parse is not None:
        return option.parse(option.default)
    return option.default


def _value(option: Option, text: str) -> object:
    """Return the value of a text; raises ValueError if argparse has to decide about it."""
    if not text or text.startswith("-") or option.implied is not None:
        raise ValueError(text)
    value = text if option.parse is None else option.parse(text)
    if option.choices and value not in option.choices:
        raise ValueError(text)
    return value
