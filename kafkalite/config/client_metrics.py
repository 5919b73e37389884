"""Settings of a client metrics subscription: metrics, interval and matching clients."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError, KeyTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.definitions import ConfigKey

_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000

_KEYS = """
interval.ms int 300000 - medium
    How often a matching client pushes its metrics, in milliseconds.
match list "" - medium
    Selectors of clients that push metrics, such as client_id=REGEX; all of them must match.
metrics list "" items medium
    Prefixes of the names of requested metrics; an empty prefix requests all.
"""

_SELECTORS = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)


@cache
def client_metrics_keys() -> Mapping[str, ConfigKey]:
    """Return every key of a client metrics subscription, by name."""
    return KeyTable(_KEYS)


class ClientMetricsRequestError(ConfigError):
    """A setting for which Kafka answers INVALID_REQUEST instead of INVALID_CONFIG."""


def check_client_metrics_values(text: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown key, an interval out of bounds, or an invalid pattern."""
    keys = client_metrics_keys()
    for name, value_text in text.items():
        if name not in keys:
            raise ClientMetricsRequestError(name, f"Unknown client metrics configuration: {name}")
        value = keys[name].parse(value_text)
        if isinstance(value, int) and not _MIN_INTERVAL_MS <= value <= _MAX_INTERVAL_MS:
            raise ClientMetricsRequestError(
                name,
                f"Invalid value {value} for {name}, interval must be between "
                f"{_MIN_INTERVAL_MS} and {_MAX_INTERVAL_MS} (1 hour)",
            )
        if name == "match" and isinstance(value, tuple):
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    selector, separator, expression = pattern.partition("=")
    is_valid = bool(separator)
    try:
        re.compile(expression.strip())
    except re.error:
        is_valid = False
    if not is_valid or selector.strip() not in _SELECTORS:
        raise ConfigError("match", f"Illegal client matching pattern: {pattern}")
