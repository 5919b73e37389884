"""Validators of configuration values, beyond their types, with Kafka's error messages.

A table refers to a validator by one word: `1..` and `0..1` are ranges, `one(a|b)` is a choice,
`items+(a|b)` is a non-empty list. `-` in a table means no validator.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from kafkalite.protocol.error_texts import ErrorText

Validator = Callable[[str, object], "str | None"]
"""(key, parsed value) → None, or the reason why the value is invalid."""


def _invalid_message(name: str, value: object, reason: str) -> str:
    return f"Invalid value {value} for configuration {name}: {reason}"


def _not_a_choice_message(name: str, value: object, choices: tuple[str, ...]) -> str:
    return ErrorText.CONFIG_IS_NO_CHOICE.format(value=value, name=name, choices=", ".join(choices))


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


def _between(minimum: float | None, maximum: float | None) -> Validator:
    def check(name: str, value: object) -> str | None:
        if not isinstance(value, (int, float)):
            return None
        if minimum is not None and value < minimum:
            return _invalid_message(name, value, f"Value must be at least {minimum}")
        if maximum is not None and value > maximum:
            return ErrorText.CONFIG_IS_TOO_LARGE.format(value=value, name=name, most=maximum)
        return None

    return check


def _one_of(choices: tuple[str, ...]) -> Validator:
    def check(name: str, value: object) -> str | None:
        if value in choices:
            return None
        return _not_a_choice_message(name, value, choices)

    return check


def _one_of_in_any_case(choices: tuple[str, ...]) -> Validator:
    known = frozenset(choice.upper() for choice in choices)

    def check(name: str, value: object) -> str | None:
        if isinstance(value, str) and value.upper() in known:
            return None
        reason = f"String must be one of (case insensitive): {', '.join(choices)}"
        return _invalid_message(name, value, reason)

    return check


def _items(choices: tuple[str, ...], *, may_be_empty: bool) -> Validator:
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
        invalid = next((item for item in value if choices and item not in choices), None)
        if invalid is None:
            return None
        return _not_a_choice_message(name, invalid, choices)

    return check


def _check_non_empty(name: str, value: object) -> str | None:
    return _invalid_message(name, value, "String must be non-empty") if value == "" else None


def _check_gzip_level(name: str, value: object) -> str | None:
    if isinstance(value, int) and (value == -1 or 1 <= value <= 9):  # noqa: PLR2004 - gzip's own
        return None
    return _invalid_message(name, value, "Value must be between 1 and 9 or equal to -1")


_THROTTLED_REPLICA = r"[0-9]+:[0-9]+"


def check_throttled_replicas(name: str, value: object) -> str | None:
    """Check for pairs of partition and broker, or a star for all."""
    if not isinstance(value, tuple) or value == ("*",):
        return None
    if all(re.fullmatch(_THROTTLED_REPLICA, item) for item in value):
        return None
    return _invalid_message(
        name,
        f"[{', '.join(value)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


_DURATION_RESET = r"by_duration:(?i:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)"


def _check_share_offset_reset(name: str, value: object) -> str | None:
    if value in ("earliest", "latest"):
        return None
    if isinstance(value, str) and re.fullmatch(_DURATION_RESET, value):
        return None
    return _invalid_message(
        name,
        value,
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', "
        "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


_METADATA_VERSIONS = """
0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0
0.11.0-IV0 0.11.0-IV1 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0
2.2-IV1 2.3-IV0 2.3-IV1 2.4-IV0 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1
3.0-IV0 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2
3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1
"""
_UNRELEASED = "4.0"


@cache
def _metadata_versions() -> frozenset[str]:
    """Return the texts that Kafka 3.9 accepts: metadata versions, and published releases."""
    versions = _METADATA_VERSIONS.split()
    releases = {version.partition("-")[0] for version in versions}
    return frozenset({*versions, *releases} - {_UNRELEASED})


def _check_metadata_version(name: str, value: object) -> str | None:
    text = str(value)
    parts = text.split(".")
    # Only the first two numbers of 3.9.1 count, and the first three of 0.10.2.1.
    if ".".join(parts[: 3 if text.startswith("0.") else 2]) in _metadata_versions():
        return None
    return _invalid_message(name, value, f"Version {text} is not a valid version")


_VOTER = r"\d+@.+:\d+"
_HOST_AND_PORT = r".+:\d+"


def _check_voters(name: str, value: object) -> str | None:
    if isinstance(value, tuple) and not all(re.fullmatch(_VOTER, item) for item in value):
        return (
            f"Invalid configuration value for {name}. "
            "Each entry should be in the form `{id}@{host}:{port}`."
        )
    return None


def _check_host_and_port(name: str, value: object) -> str | None:
    if not isinstance(value, tuple):
        return None
    invalid = next((item for item in value if not re.fullmatch(_HOST_AND_PORT, item)), None)
    if invalid is None:
        return None
    return (
        f"Failed to parse host name from {invalid} for the configuration {name}. "
        'Each entry should be in the form "{host}:{port}"'
    )


_VALIDATORS: dict[str, Validator] = {
    "items": _items((), may_be_empty=True),
    "items+": _items((), may_be_empty=False),
    "non-empty": _check_non_empty,
    "gzip-level": _check_gzip_level,
    "metadata-version": _check_metadata_version,
    "throttled-replicas": check_throttled_replicas,
    "share-reset": _check_share_offset_reset,
    "voters": _check_voters,
    "host-and-port": _check_host_and_port,
}
_CHOICE_VALIDATORS: dict[str, Callable[[tuple[str, ...]], Validator]] = {
    "one": _one_of,
    "any-case": _one_of_in_any_case,
    "items": partial(_items, may_be_empty=True),
    "items+": partial(_items, may_be_empty=False),
}


@cache
def parse_validator(text: str) -> Validator:
    """Return the validator for a word in a table; raises ValueError for an unknown word."""
    if text in _VALIDATORS:
        return _VALIDATORS[text]
    word, bracket, choices = text.removesuffix(")").partition("(")
    if bracket and word in _CHOICE_VALIDATORS:
        return _CHOICE_VALIDATORS[word](tuple(choices.split("|")))
    minimum, dots, maximum = text.partition("..")
    if not dots:
        raise ValueError(f"no such validator: {text}")
    return _between(_number(minimum), _number(maximum))
