"""Settings of a client metrics subscription: metrics, interval and matching clients."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError, KeyTable
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.config.definitions import ConfigKey

    Matches = Callable[[str], bool]
    """Whether a whole text matches an expression."""

_SELECTOR_PARTS = 2
_REPETITION_COUNT = r"([1-9][0-9]{0,9})\}"
_MAX_BACKTRACKING_LENGTH = 10_000
_MAX_MATCHING_S = 0.01
_MAX_PROGRAM_BYTES = 1 << 18
"""Memory of a compiled expression; a larger one takes long to compile."""
_MAX_CACHED_EXPRESSIONS = 256
_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000

_KEYS = """
interval.ms int 300000 - medium
    How often a matching client pushes its metrics, in milliseconds.
match list "" items medium
    Selectors of clients that push metrics, such as client_id=REGEX; all of them must match.
metrics list "" items medium
    Prefixes of the names of requested metrics; * requests all.
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
            parse_selectors(value)


class Subscription(NamedTuple):
    """The settings of one client metrics subscription."""

    metrics: tuple[str, ...]
    interval_ms: int
    selectors: Mapping[str, Matches]
    """Attribute of a client → the expression that its value must match; none select all clients."""

    def selects(self, client: Mapping[str, str | None]) -> bool:
        """Whether all selectors match the attributes of a client."""
        return all(
            (value := client[name]) is not None and matches(value)
            for name, matches in self.selectors.items()
        )


def parse_subscription(text: Mapping[str, str]) -> Subscription:
    """Return the subscription with these settings; raises ConfigError if they are invalid."""
    values = {
        name: key.parse(text[name]) if name in text else key.default
        for name, key in client_metrics_keys().items()
    }
    metrics, interval_ms, match = values["metrics"], values["interval.ms"], values["match"]
    assert isinstance(metrics, tuple)
    assert isinstance(interval_ms, int)
    assert isinstance(match, tuple)
    return Subscription(metrics, interval_ms, parse_selectors(match))


def parse_selectors(patterns: tuple[str, ...]) -> Mapping[str, Matches]:
    """Return attribute → expression; raises ConfigError for an invalid pattern.

    As in Kafka, the last pattern of an attribute replaces earlier ones.
    """
    return dict(_parse_selector(pattern) for pattern in patterns)


def _parse_selector(pattern: str) -> tuple[str, Matches]:
    parts = pattern.rstrip("=").split("=")  # Java's split omits empty parts at the end
    selector, expression = parts[0].strip(), parts[-1].strip()
    matches = _compile(expression) if len(parts) == _SELECTOR_PARTS else None
    if matches is None or selector not in _SELECTORS:
        raise ConfigError("match", f"Illegal client matching pattern: {pattern}")
    return selector, matches


@lru_cache(maxsize=_MAX_CACHED_EXPRESSIONS)
def _compile(expression: str) -> Matches | None:
    """Return a function that matches an expression; None if it is invalid.

    Kafka uses Java's expressions. RE2 has the same syntax and takes linear time, but has neither
    lookaround nor back references. Only an expression with these is matched by backtracking.
    """
    import re2  # noqa: PLC0415 - rarely used

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PROGRAM_BYTES
    with suppress(re2.error):
        linear = re2.compile(expression, options)
        return lambda text: linear.fullmatch(text) is not None
    return _compile_backtracking(expression)


def _compile_backtracking(expression: str) -> Matches | None:
    """Return a function that tries to match for a limited time, as other clients wait meanwhile.

    A text that takes longer does not match. The expression must be short, and so must be the one
    without counted repetitions: otherwise it takes long to compile.
    """
    counts = (int(count) for count in re.findall(_REPETITION_COUNT, expression))
    if len(expression) * prod(counts) > _MAX_BACKTRACKING_LENGTH:
        return None
    import regex  # noqa: PLC0415 - rarely used

    try:
        backtracking = regex.compile(expression, regex.ASCII)
    except (regex.error, RecursionError, OverflowError):
        return None

    def matches(text: str) -> bool:
        try:
            return backtracking.fullmatch(text, timeout=_MAX_MATCHING_S) is not None
        except TimeoutError:
            return False

    return matches
