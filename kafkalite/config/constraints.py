"""Constraints between settings of a broker, as tables.

The rows and their order are those of Kafka's configuration classes. Constraints are checked at the
start and for every dynamic change, except those in the last section.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkalite.config.definitions import ConfigError, Value
from kafkalite.config.keys import RETENTION_SYNONYMS, ROLL_JITTER_SYNONYMS, ROLL_SYNONYMS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_texts import ErrorText

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GetValue = Callable[[str], Value]
"""Key → value, or its default if it is not set."""

_INT32_LIMIT: Final = 1 << 31
_BYTES_PER_CLEANER: Final = 1024 * 1024
MIN_SEGMENT_BYTES: Final = 1024 * 1024
"""The minimum of the topic setting segment.bytes."""
UNLIMITED: Final = -1
_SAME_AS_TOTAL: Final = -2
_ALL_DIRECTORIES: Final = ("*",)


class OrderConstraint(NamedTuple):
    """`greater` must not be less than `less`; the error names `key`."""

    greater: str
    less: str
    key: str
    message: str
    is_strict: bool = False
    """Whether the two must not be equal either."""


class Requirement(NamedTuple):
    """A condition on any number of settings."""

    key: str
    is_met: Callable[[GetValue], bool]
    message: str
    details: Callable[[GetValue], str] | None = None
    """The end of the message, if it depends on the settings."""


def _number(get: GetValue, key: str) -> int:
    value = get(key)
    return value if isinstance(value, int) else 0


def _items(get: GetValue, key: str) -> tuple[str, ...]:
    value = get(key)
    return value if isinstance(value, tuple) else ()


def _first_value_ms(get: GetValue, synonyms: Sequence[tuple[str, int]]) -> int:
    """Return the value of the first key that is set, in milliseconds."""
    for name, factor in synonyms:
        value = get(name)
        if isinstance(value, int):
            return value * factor
    return UNLIMITED


def retention_ms(get: GetValue) -> int:
    """Return the default retention time in milliseconds, -1 for unlimited."""
    return max(UNLIMITED, _first_value_ms(get, RETENTION_SYNONYMS))


# Groups


def _at_least(key: str, minimum: str) -> OrderConstraint:
    message = ErrorText.CONFIG_IS_BELOW_ANOTHER.format(name=key, other=minimum)
    return OrderConstraint(key, minimum, key, message)


def _at_most(key: str, maximum: str) -> OrderConstraint:
    return OrderConstraint(maximum, key, key, f"{key} must be less than or equal to {maximum}")


def _bounds_constraints(kind: str, setting: str) -> Iterator[OrderConstraint]:
    """Yield `group.<kind>.min.<setting>` ≤ `group.<kind>.<setting>` ≤ `group.<kind>.max.…`."""
    value, minimum, maximum = (f"group.{kind}.{bound}{setting}" for bound in ("", "min.", "max."))
    yield from (_at_least(maximum, minimum), _at_least(value, minimum), _at_most(value, maximum))


def _group_constraints(kind: str) -> Iterator[OrderConstraint]:
    for setting in ("heartbeat.interval.ms", "session.timeout.ms"):
        yield from _bounds_constraints(kind, setting)
    session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
    yield OrderConstraint(
        session, heartbeat, heartbeat, f"{heartbeat} must be less than {session}", is_strict=True
    )
    yield from _bounds_constraints(kind, "assignment.interval.ms")


_GROUP_CONSTRAINTS: Final = (
    *_group_constraints("consumer"),
    *_group_constraints("share"),
    *_group_constraints("streams"),
    _at_most("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    _at_least("group.streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms"),
    _at_least("group.share.max.delivery.count.limit", "group.share.delivery.count.limit"),
    _at_least("group.share.delivery.count.limit", "group.share.min.delivery.count.limit"),
    _at_least(
        "group.share.max.partition.max.record.locks", "group.share.partition.max.record.locks"
    ),
    _at_least(
        "group.share.partition.max.record.locks", "group.share.min.partition.max.record.locks"
    ),
    _at_least("group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"),
    _at_least("group.share.max.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    _at_least("group.share.max.share.sessions", "group.share.max.size"),
)

_REPLICA_CONSTRAINTS: Final = (
    OrderConstraint(
        "replica.socket.timeout.ms",
        "replica.fetch.wait.max.ms",
        "replica.socket.timeout.ms",
        "requirement failed: replica.socket.timeout.ms should always be at least "
        "replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
    ),
    OrderConstraint(
        "replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms",
        "replica.fetch.wait.max.ms",
        "requirement failed: replica.fetch.wait.max.ms should always be less than or equal to "
        "replica.lag.time.max.ms to prevent frequent changes in ISR",
    ),
)

# Logs, listeners and connections


def _is_cleaner_memory_sufficient(get: GetValue) -> bool:
    threads = _number(get, "log.cleaner.threads")
    return _number(get, "log.cleaner.dedupe.buffer.size") // threads > _BYTES_PER_CLEANER


def _unknown_cordoned_directories(get: GetValue) -> list[str]:
    cordoned = _items(get, "cordoned.log.dirs")
    known = _items(get, "log.dirs") or _items(get, "log.dir")
    if cordoned == _ALL_DIRECTORIES:
        return []
    return [directory for directory in cordoned if directory not in known]


_SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")


def _is_inter_broker_mechanism_enabled(get: GetValue) -> bool:
    if get("security.inter.broker.protocol") not in _SASL_PROTOCOLS:
        return True
    enabled = _items(get, "sasl.enabled.mechanisms")
    return get("sasl.mechanism.inter.broker.protocol") in enabled


def _is_delay_below_idle_time(get: GetValue) -> bool:
    idle_ms = _number(get, "connections.max.idle.ms")
    return idle_ms < 0 or _number(get, "connection.failed.authentication.delay.ms") < idle_ms


_HOST_AND_COUNT: Final = r"[0-9a-zA-Z\-%._:]*\s*:\s*([+-]?[0-9]+)"


def parse_host_counts(key: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield host and count of a list of `host:count`; raises ConfigError if it is malformed."""
    items = [item.strip() for item in text.split(",")]
    # As in Java, empty items at the end are ignored, and other empty items are invalid.
    while items and not items[-1]:
        items.pop()
    for item in items:
        match = re.fullmatch(_HOST_AND_COUNT, item)
        if match is None or not -_INT32_LIMIT <= int(match[1]) < _INT32_LIMIT:
            raise ConfigError(
                key, f"Error parsing configuration property '{key}': {item!r} is not host:count"
            )
        yield item.rpartition(":")[0].rstrip(), int(match[1])


def _has_connection_limit_overrides(get: GetValue) -> bool:
    key = "max.connections.per.ip.overrides"
    text = get(key)
    return isinstance(text, str) and bool([*parse_host_counts(key, text)])


_REQUIREMENTS: Final = (
    Requirement(
        "group.share.assignors",
        lambda get: len(_items(get, "group.share.assignors")) == 1,
        "group.share.assignors must contain exactly one assignor",
    ),
    Requirement(
        "group.coordinator.rebalance.protocols",
        lambda get: "classic" in _items(get, "group.coordinator.rebalance.protocols"),
        "Disabling the 'classic' protocol is not supported.",
    ),
    Requirement(
        "log.roll.ms",
        lambda get: _first_value_ms(get, ROLL_SYNONYMS) >= 1,
        "requirement failed: log.roll.ms must be greater than or equal to 1",
    ),
    Requirement(
        "log.roll.jitter.ms",
        lambda get: _first_value_ms(get, ROLL_JITTER_SYNONYMS) >= 0,
        "requirement failed: log.roll.jitter.ms must be greater than or equal to 0",
    ),
    Requirement(
        "log.retention.ms",
        lambda get: retention_ms(get) != 0,
        "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal "
        "to 1",
    ),
    Requirement(
        "log.cleaner.threads",
        # Kafka divides by this number, and its error reports only the division.
        lambda get: _number(get, "log.cleaner.threads") > 0,
        "log.cleaner.threads must be at least 1, because logs are always cleaned",
    ),
    Requirement(
        "log.cleaner.dedupe.buffer.size",
        _is_cleaner_memory_sufficient,
        "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
        "thread.",
    ),
    Requirement(
        "cordoned.log.dirs",
        lambda get: (
            "*" not in _items(get, "cordoned.log.dirs")
            or _items(get, "cordoned.log.dirs") == _ALL_DIRECTORIES
        ),
        "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values",
    ),
    Requirement(
        "cordoned.log.dirs",
        lambda get: not _unknown_cordoned_directories(get),
        "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
        "log.dir. Missing entries : ",
        lambda get: ", ".join(_unknown_cordoned_directories(get)),
    ),
    Requirement(
        "sasl.mechanism.inter.broker.protocol",
        _is_inter_broker_mechanism_enabled,
        "requirement failed: sasl.mechanism.inter.broker.protocol must be included in "
        "sasl.enabled.mechanisms when SASL is used for inter-broker communication",
    ),
    Requirement(
        "queued.max.request.bytes",
        lambda get: (
            (queued := _number(get, "queued.max.request.bytes")) <= 0
            or queued >= _number(get, "socket.request.max.bytes")
        ),
        "requirement failed: queued.max.request.bytes must be larger or equal to "
        "socket.request.max.bytes",
    ),
    Requirement(
        "max.connections.per.ip",
        # Always parse the overrides, because they may be malformed.
        lambda get: _has_connection_limit_overrides(get) or get("max.connections.per.ip") != 0,
        "requirement failed: max.connections.per.ip can be set to zero only if "
        "max.connections.per.ip.overrides property is set.",
    ),
    Requirement(
        "connection.failed.authentication.delay.ms",
        _is_delay_below_idle_time,
        "requirement failed: connection.failed.authentication.delay.ms should always be less than "
        "connections.max.idle.ms to prevent failed authentication responses from timing out",
    ),
)

_SEGMENT_BYTES_OF_INTERNAL_TOPICS: Final = (
    "offsets.topic.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
)


def _check_internal_topics(get: GetValue) -> None:
    """Raise ConfigError for sizes that Kafka refuses only when it creates the internal topics."""
    for key in _SEGMENT_BYTES_OF_INTERNAL_TOPICS:
        if _number(get, key) < MIN_SEGMENT_BYTES:
            raise ConfigError(
                key, f"{key} must be at least {MIN_SEGMENT_BYTES}, the minimum of segment.bytes"
            )


def check_broker_values(get: GetValue) -> None:
    """Raise ConfigError for values that are valid on their own but not together."""
    for order in (*_GROUP_CONSTRAINTS, *_REPLICA_CONSTRAINTS):
        greater, less = _number(get, order.greater), _number(get, order.less)
        if greater < less or (order.is_strict and greater == less):
            raise ConfigError(order.key, order.message)
    for requirement in _REQUIREMENTS:
        if not requirement.is_met(get):
            details = "" if requirement.details is None else requirement.details(get)
            raise ConfigError(requirement.key, requirement.message + details)
    _check_internal_topics(get)


# Constraints at the start only

_EXCLUSIVE_KEYS: Final = ("inter.broker.listener.name", "security.inter.broker.protocol")


def check_static_text(text: Mapping[str, str]) -> None:
    """Raise ConfigError for settings of the properties file that cannot be combined."""
    if "node.id" in text and text.get("broker.id", text["node.id"]) != text["node.id"]:
        raise ConfigError("broker.id", "You must set `node.id` to the same value as `broker.id`.")
    if all(key in text for key in _EXCLUSIVE_KEYS):
        raise ConfigError(
            _EXCLUSIVE_KEYS[0], f"Only one of {' and '.join(_EXCLUSIVE_KEYS)} should be set."
        )
    if "process.roles" in text and "node.id" in text:
        _check_roles(text)


def _check_roles(text: Mapping[str, str]) -> None:
    """Check the node's roles against the voters of the controller quorum."""
    roles = {role.strip() for role in text["process.roles"].split(",")}
    voters = text.get("controller.quorum.voters", "")
    ids = {voter.strip().partition("@")[0] for voter in voters.split(",") if voter.strip()}
    node_id = text["node.id"].strip()
    is_controller = "controller" in roles
    if ids and is_controller is not (node_id in ids):
        must = "must" if is_controller else "must not"
        raise ConfigError(
            "controller.quorum.voters",
            f"requirement failed: With process.roles={text['process.roles']}, the node id "
            f"{node_id} {must} be included in the set of voters controller.quorum.voters={voters}",
        )
    if not is_controller and text.get("controller.quorum.auto.join.enable", "").lower() == "true":
        raise ConfigError(
            "controller.quorum.auto.join.enable",
            "requirement failed: controller.quorum.auto.join.enable is only supported when "
            "process.roles contains the 'controller' role.",
        )


def check_log_defaults(get: GetValue) -> None:
    """Raise ConfigError for defaults of topics that contradict each other.

    Kafka checks these when it opens its logs, but not for dynamic changes.
    """
    minimum, maximum = (
        _number(get, f"log.cleaner.{bound}.compaction.lag.ms") for bound in ("min", "max")
    )
    if minimum > maximum:
        raise ConfigError(
            "log.cleaner.min.compaction.lag.ms",
            f"conflict topic config setting min.compaction.lag.ms ({minimum}) > "
            f"max.compaction.lag.ms ({maximum})",
        )
    if get("remote.log.storage.system.enable"):
        check_local_retention(get)


def check_copy_lags(get: GetValue) -> None:
    """Raise ConfigError if segments would be deleted locally before they are copied."""
    for lag_key, local_key, total in (
        ("log.remote.copy.lag.ms", "log.local.retention.ms", retention_ms(get)),
        (
            "log.remote.copy.lag.bytes",
            "log.local.retention.bytes",
            _number(get, "log.retention.bytes"),
        ),
    ):
        lag, local = _number(get, lag_key), _number(get, local_key)
        limit = total if local == _SAME_AS_TOTAL else local
        if lag > 0 and 0 <= limit < lag:
            reason = f"Value must not exceed {local_key} (effective value: {limit})"
            raise ConfigError(lag_key, f"Invalid value {lag} for configuration {lag_key}: {reason}")


def check_local_retention(get: GetValue) -> None:
    """Raise ConfigError if the local retention of a tiered log exceeds its total retention."""
    for local_key, total_key, limit in (
        ("log.local.retention.ms", "log.retention.ms", retention_ms(get)),
        ("log.local.retention.bytes", "log.retention.bytes", _number(get, "log.retention.bytes")),
    ):
        value = _number(get, local_key)
        if value == _SAME_AS_TOTAL or limit <= UNLIMITED or UNLIMITED < value <= limit:
            continue
        reason = (
            f"Value must not be -1 as {total_key} value is set as {limit}."
            if value == UNLIMITED
            else f"Value must not be more than {total_key} property value: {limit}"
        )
        raise ConfigError(
            local_key, f"Invalid value {value} for configuration {local_key}: {reason}"
        )
