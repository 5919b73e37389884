"""What a configuration key accepts beyond its type, and how a refusal is worded.

A rule is written in a table as one word: `1..` and `0..1` are ranges, `one(a|b)` a choice,
`items+(a|b)` a list that may not be empty. Messages are those that Kafka gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

Rule = Callable[[str, object], "str | None"]
"""(key, parsed value) → None, or why the value is refused."""


def _invalid(name: str, value: object, why: str) -> str:
    return f"Invalid value {value} for configuration {name}: {why}"


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


def _between(least: float | None, most: float | None) -> Rule:
    def check(name: str, value: object) -> str | None:
        if not isinstance(value, (int, float)):
            return None
        if least is not None and value < least:
            return _invalid(name, value, f"Value must be at least {least}")
        if most is not None and value > most:
            return _invalid(name, value, f"Value must be no more than {most}")
        return None

    return check


def _one_of(choices: tuple[str, ...]) -> Rule:
    def check(name: str, value: object) -> str | None:
        if value in choices:
            return None
        return _invalid(name, value, f"String must be one of: {', '.join(choices)}")

    return check


def _one_of_in_any_case(choices: tuple[str, ...]) -> Rule:
    known = frozenset(choice.upper() for choice in choices)

    def check(name: str, value: object) -> str | None:
        if isinstance(value, str) and value.upper() in known:
            return None
        why = f"String must be one of (case insensitive): {', '.join(choices)}"
        return _invalid(name, value, why)

    return check


def _items(choices: tuple[str, ...], *, may_be_empty: bool) -> Rule:
    valid = f"[{', '.join(choices)}]" if choices else "any non-empty value"

    def check(name: str, value: object) -> str | None:
        if not isinstance(value, tuple):
            return None
        if not value and not may_be_empty:
            return f"Configuration '{name}' must not be empty. Valid values include: {valid}"
        if len(set(value)) != len(value):
            return f"Configuration '{name}' values must not be duplicated."
        if "" in value:
            return f"Configuration '{name}' values must not be empty."
        wrong = next((item for item in value if choices and item not in choices), None)
        if wrong is None:
            return None
        return _invalid(name, wrong, f"String must be one of: {', '.join(choices)}")

    return check


def _non_empty(name: str, value: object) -> str | None:
    return _invalid(name, value, "String must be non-empty") if value == "" else None


def _gzip_level(name: str, value: object) -> str | None:
    if isinstance(value, int) and (value == -1 or 1 <= value <= 9):  # noqa: PLR2004 - gzip's own
        return None
    return _invalid(name, value, "Value must be between 1 and 9 or equal to -1")


_THROTTLED_REPLICA = r"[0-9]+:[0-9]+"


def throttled_replicas(name: str, value: object) -> str | None:
    """Accept pairs of partition and broker, or a star for all."""
    if not isinstance(value, tuple) or value == ("*",):
        return None
    if all(re.fullmatch(_THROTTLED_REPLICA, item) for item in value):
        return None
    return _invalid(
        name,
        f"[{', '.join(value)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


_DURATION = r"by_duration:(?i:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)"


def _share_reset(name: str, value: object) -> str | None:
    if value in ("earliest", "latest"):
        return None
    if isinstance(value, str) and re.fullmatch(_DURATION, value):
        return None
    return _invalid(
        name,
        value,
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


_VOTER = r"\d+@.+:\d+"
_HOST_AND_PORT = r".+:\d+"


def _voters(name: str, value: object) -> str | None:
    if isinstance(value, tuple) and not all(re.fullmatch(_VOTER, item) for item in value):
        return (
            f"Invalid configuration value for {name}. "
            "Each entry should be in the form `{id}@{host}:{port}`."
        )
    return None


def _host_and_port(name: str, value: object) -> str | None:
    if not isinstance(value, tuple):
        return None
    wrong = next((item for item in value if not re.fullmatch(_HOST_AND_PORT, item)), None)
    if wrong is None:
        return None
    return (
        f"Failed to parse host name from {wrong} for the configuration {name}. "
        'Each entry should be in the form "{host}:{port}"'
    )


_NAMED: dict[str, Rule] = {
    "items": _items((), may_be_empty=True),
    "items+": _items((), may_be_empty=False),
    "non-empty": _non_empty,
    "gzip-level": _gzip_level,
    "throttled-replicas": throttled_replicas,
    "share-reset": _share_reset,
    "voters": _voters,
    "host-and-port": _host_and_port,
}
_CHOICES: dict[str, Callable[[tuple[str, ...]], Rule]] = {
    "one": _one_of,
    "any-case": _one_of_in_any_case,
    "items": partial(_items, may_be_empty=True),
    "items+": partial(_items, may_be_empty=False),
}


@cache
def rule_from_text(text: str) -> Rule:
    """Return the rule that one word of a table means; ValueError for a word unknown."""
    if text in _NAMED:
        return _NAMED[text]
    word, bracket, choices = text.removesuffix(")").partition("(")
    if bracket and word in _CHOICES:
        return _CHOICES[word](tuple(choices.split("|")))
    least, dots, most = text.partition("..")
    if not dots:
        raise ValueError(f"no such rule: {text}")
    return _between(_number(least), _number(most))
