"""Rules between keys: a least that may not exceed its most, a beat that must fit its session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.definitions import Value

_DEDUPE_BYTES_PER_CLEANER = 1024 * 1024


def _require(holds: bool, key: str, message: str) -> None:  # noqa: FBT001 - read as a sentence
    if not holds:
        raise ConfigError(key, f"requirement failed: {message}")


def _integer(get: Callable[[str], Value], key: str) -> int:
    value = get(key)
    return value if isinstance(value, int) else 0


def _check_bounds(get: Callable[[str], Value], kind: str, subject: str) -> None:
    """Check `group.<kind>.min.<subject>` ≤ `group.<kind>.<subject>` ≤ `group.<kind>.max.…`."""
    own, least, most = (f"group.{kind}.{bound}{subject}" for bound in ("", "min.", "max."))
    _require(
        _integer(get, most) >= _integer(get, least),
        most,
        f"{most} must be greater than or equal to {least}",
    )
    _require(
        _integer(get, own) >= _integer(get, least),
        own,
        f"{own} must be greater than or equal to {least}",
    )
    _require(
        _integer(get, own) <= _integer(get, most),
        own,
        f"{own} must be less than or equal to {most}",
    )


_COUNTED_ADDRESS = r"[^,]+:[0-9]+"


def _check_counted_addresses(get: Callable[[str], Value], key: str) -> None:
    """Check a list of `host:count`."""
    text = get(key)
    for item in text.split(",") if isinstance(text, str) and text else ():
        if not re.fullmatch(_COUNTED_ADDRESS, item.strip()):
            raise ConfigError(
                key, f"Error parsing configuration property '{key}': {item} is not host:count"
            )


def check_broker_values(get: Callable[[str], Value]) -> None:
    """Raise ConfigError for values that are fine alone and impossible together."""
    _require(
        _integer(get, "group.max.session.timeout.ms")
        >= _integer(get, "group.min.session.timeout.ms"),
        "group.max.session.timeout.ms",
        "group.max.session.timeout.ms must be greater than or equal to "
        "group.min.session.timeout.ms",
    )
    _check_logs(get)
    _check_connections(get)
    for kind in ("consumer", "share", "streams"):
        _check_group(get, kind)


def _check_logs(get: Callable[[str], Value]) -> None:
    _require(
        _integer(get, "log.cleaner.threads") > 0,
        "log.cleaner.threads",
        "log.cleaner.threads must be at least 1, for logs are always cleaned",
    )
    _require(
        _integer(get, "log.cleaner.dedupe.buffer.size")
        >= _integer(get, "log.cleaner.threads") * _DEDUPE_BYTES_PER_CLEANER,
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    _require(
        get("log.retention.ms") != 0,
        "log.retention.ms",
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        get("log.roll.ms") is None or _integer(get, "log.roll.ms") >= 1,
        "log.roll.ms",
        "log.roll.ms must be greater than or equal to 1",
    )
    _require(
        get("log.roll.jitter.ms") is None or _integer(get, "log.roll.jitter.ms") >= 0,
        "log.roll.jitter.ms",
        "log.roll.jitter.ms must be greater than or equal to 0",
    )


def _check_connections(get: Callable[[str], Value]) -> None:
    _require(
        get("max.connections.per.ip") != 0 or get("max.connections.per.ip.overrides") != "",
        "max.connections.per.ip",
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
        "property is set.",
    )
    _require(
        _integer(get, "queued.max.request.bytes") <= 0
        or _integer(get, "queued.max.request.bytes") >= _integer(get, "socket.request.max.bytes"),
        "queued.max.request.bytes",
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    _check_counted_addresses(get, "max.connections.per.ip.overrides")


def _check_group(get: Callable[[str], Value], kind: str) -> None:
    for subject in ("session.timeout.ms", "heartbeat.interval.ms"):
        _check_bounds(get, kind, subject)
    session, beat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
    _require(
        _integer(get, beat) < _integer(get, session),
        beat,
        f"{beat} must be less than {session}",
    )
