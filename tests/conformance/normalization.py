"""Normalization of responses: the only place that lists permitted differences of two brokers.

The texts of `kafkalite.protocol.error_texts` are compared word for word. Other messages have our
own wording, so only their presence is compared.

An id becomes a symbol, numbered by first appearance (`member_id#1`), so that two responses with the
same id have the same symbol. Of a time, a port or a directory only the presence is compared.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from enum import Enum
from string import Formatter
from typing import TypeAlias

from crc32c import crc32c

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.message import Message
from tests.conformance.batches import BASE_TIMESTAMP, CONTROL, LOG_APPEND_TIME

Tree: TypeAlias = "str | int | float | bool | list[Tree] | dict[str, Tree] | None"

# Kafka's word for "none" in a number.
_NONE = -1


class Rule(Enum):
    """The treatment of a field's value."""

    DROP = "not compared at all"
    PRESENT = "only whether there is one"
    TIME = "itself if a client set it, else that the broker did"
    SYMBOL = "which of the values seen so far"
    TEXT = "itself if programs compare it, else only whether there is one"


RULES: dict[str, Rule] = {
    "throttle_time_ms": Rule.DROP,
    "correlation_id": Rule.DROP,
    "port": Rule.PRESENT,
    "log_dir": Rule.PRESENT,
    "total_bytes": Rule.PRESENT,
    "usable_bytes": Rule.PRESENT,
    "log_append_time_ms": Rule.PRESENT,
    "transaction_start_time_ms": Rule.TIME,
    "last_timestamp": Rule.TIME,
    "timestamp": Rule.TIME,
    "transaction_start_timestamp_ms": Rule.TIME,
    "transaction_last_update_timestamp_ms": Rule.TIME,
    "finalized_features_epoch": Rule.PRESENT,
    "last_fetch_timestamp": Rule.PRESENT,
    "last_caught_up_timestamp": Rule.PRESENT,
    "error_message": Rule.TEXT,
    "acknowledge_error_message": Rule.TEXT,
    "status_detail": Rule.TEXT,
    "batch_index_error_message": Rule.TEXT,
    "documentation": Rule.PRESENT,
    "topic_id": Rule.SYMBOL,
    "cluster_id": Rule.SYMBOL,
    "member_id": Rule.SYMBOL,
    "leader": Rule.SYMBOL,
    "session_id": Rule.SYMBOL,
    "producer_id": Rule.SYMBOL,
    "previous_producer_id": Rule.SYMBOL,
    "next_producer_id": Rule.SYMBOL,
    "replica_directory_id": Rule.SYMBOL,
    "incarnation_id": Rule.SYMBOL,
}

# Lists in any order (Kafka fills them from hash maps), by the field that identifies a row.
UNORDERED: dict[str, tuple[str, ...]] = {
    "api_keys": ("api_key",),
    "supported_features": ("name",),
    "finalized_features": ("name",),
    "topics": ("name", "topic", "topic_name", "topic_id"),
    "responses": ("name", "topic", "topic_id", "resource_name"),
    "partitions": ("partition_index", "partition", "partition_id"),
    "partition_responses": ("index",),
    "brokers": ("broker_id", "node_id"),
    "configs": ("name",),
    "groups": ("group_id",),
    "members": ("group_instance_id", "instance_id", "member_id"),
    "results": ("resource_name", "log_dir", "group_id"),
    "config_resources": ("resource_type", "resource_name"),
    "topic_partitions": ("topic_name", "topic_id"),
    "initializing_topics": ("topic_name",),
    "initialized_topics": ("topic_name",),
    "deleting_topics": ("topic_name",),
    "assigned_partitions": ("topic_id",),
    "active_tasks": ("subtopology_id",),
    "standby_tasks": ("subtopology_id",),
    "warmup_tasks": ("subtopology_id",),
    "active_partitions": ("topic",),
    "standby_partitions": ("topic",),
    "partitions_by_user_endpoint": ("user_endpoint",),
    "topic_configs": ("key",),
    "client_tags": ("key",),
    "transaction_states": ("transactional_id",),
    "results_by_transaction": ("transactional_id",),
    "topic_results": ("name",),
    "results_by_topic_v3_and_below": ("name",),
    "results_by_partition": ("partition_index",),
    "active_producers": ("producer_id",),
    "markers": ("producer_id",),
    "transaction_partitions": ("topic",),
}

# Lists of plain values that are hash sets in Kafka, so their order is arbitrary.
SETS = frozenset(
    (
        "partitions", "subscribed_topic_names", "unknown_state_filters", "partition_ids",
        "isr_nodes", "eligible_leader_replicas", "offline_replicas",
    )
)  # fmt: skip

_TEXT_IDS = frozenset(name for name, rule in RULES.items() if rule is Rule.SYMBOL)
"""Values of an error text that are ids, which differ between brokers."""

_VALUES = {
    **dict.fromkeys(("name", "other"), r"\S+"),
    **dict.fromkeys(("received_epoch", "member_epoch", "previous_member_epoch"), r"-?\d+"),
}
"""Patterns of values in error texts, for texts that could otherwise match another one."""


def _pattern(text: ErrorText) -> re.Pattern[str]:
    """Return a pattern of a text with any values; a value that occurs twice must be the same."""
    parts: list[str] = []
    names: set[str] = set()
    for literal, name, _, _ in Formatter().parse(text.template):
        parts.append(re.escape(literal))
        if name is not None:
            value = _VALUES.get(name, ".*")
            parts.append(f"(?P={name})" if name in names else f"(?P<{name}>{value})")
            names.add(name)
    return re.compile("".join(parts), re.DOTALL)


_TEXTS = tuple((text, _pattern(text)) for text in ErrorText)

_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_END = 21

# Values of an id field that mean that there is no id.
_EMPTY_IDS: defaultdict[str, set[object]] = defaultdict(
    lambda: {None, "", _NONE, 0, bytes(16)}, {"producer_id": {_NONE}}
)

# Field → another field with ids of the same kind.
_SAME_KIND = {
    "leader": "member_id",
    "previous_producer_id": "producer_id",
    "next_producer_id": "producer_id",
}

# An earlier timestamp is from a batch that a test built.
_CLIENT_TIMES_END = BASE_TIMESTAMP + 1_000_000_000


class Normaliser:
    """Replaces ids by symbols, for one scenario on one broker."""

    def __init__(self, ignored: frozenset[str] = frozenset()) -> None:
        self._ignored = ignored
        self._symbols: dict[str, dict[object, str]] = defaultdict(dict)

    def name(self, field: str, value: object, symbol: str) -> None:
        """Assign a symbol to a value before it appears in a response."""
        self._symbols[field][value] = symbol

    def tree(self, message: Message) -> dict[str, Tree]:
        """Convert a message to plain values without permitted differences."""
        values: dict[str, Tree] = {}
        for name in message.__slots__:
            if RULES.get(name) is Rule.DROP or name in self._ignored:
                continue
            value = getattr(message, name)
            if name == "unknown_tags" and not value:
                continue
            values[name] = self._value(name, value)
        return values

    def _value(self, name: str, value: object) -> Tree:
        if isinstance(value, Message):
            return self.tree(value)
        if isinstance(value, list):
            return self._list(name, value)
        if name in RULES:
            return self._by_rule(RULES[name], name, value)
        if isinstance(value, bytes | memoryview):
            return self._batches(bytes(value)) if name == "records" else bytes(value).hex()
        if name == "error_code" and isinstance(value, int):
            return f"{int(value)} {ErrorCode(value).name}"
        assert value is None or isinstance(value, str | bool | int | float), value
        return value

    def _by_rule(self, rule: Rule, name: str, value: object) -> Tree:
        if rule is Rule.SYMBOL:
            return self.symbol(name, value)
        if rule is Rule.TEXT and isinstance(value, str):
            return self._text(value)
        return _time(value) if rule is Rule.TIME else _presence(value)

    def _text(self, text: str) -> Tree:
        """Replace the ids in a text of the table by symbols; of other texts return the presence."""
        for row, pattern in _TEXTS:
            if (match := pattern.fullmatch(text)) is not None:
                values = {
                    name: self.symbol(name, value) if name in _TEXT_IDS else value
                    for name, value in match.groupdict().items()
                }
                return row.format(**values)
        return _presence(text)

    def symbol(self, name: str, value: object) -> Tree:
        """Return the symbol of an id in a field of this name."""
        if isinstance(value, int) and name == "leader":
            return value or "none"
        id_field = _SAME_KIND.get(name, name)
        if value in _EMPTY_IDS[id_field]:
            return "none"
        symbols = self._symbols[id_field]
        return symbols.setdefault(value, f"{id_field}#{len(symbols) + 1}")

    def _list(self, name: str, values: list[object]) -> Tree:
        rows = [self._value(name, value) for value in values]
        keys = UNORDERED.get(name, ())
        if keys and all(isinstance(row, dict) for row in rows):
            rows.sort(key=lambda row: [repr(row.get(key)) for key in keys])  # type: ignore[union-attr]
        if name in SETS and not any(isinstance(row, dict) for row in rows):
            rows.sort(key=repr)
        return rows

    def _batches(self, data: bytes) -> Tree:
        """Show record batches by their headers; fields set by the broker are marked.

        A checksum covers the producer id, which differs between brokers. So it is compared only
        with the checksum that the batch should have.
        """
        batches: list[Tree] = []
        position = 0
        while position + _BATCH_HEADER.size <= len(data):
            header = _BATCH_HEADER.unpack_from(data, position)
            (
                base_offset,
                length,
                epoch,
                magic,
                crc,
                attributes,
                last_delta,
                base_timestamp,
                max_timestamp,
            ) = header[:9]
            end = position + 12 + length
            is_broker_time = bool(attributes & (LOG_APPEND_TIME | CONTROL))
            is_comparable = header[9] == _NONE and not is_broker_time
            if end > len(data):
                # Kafka truncates at the limit; readers ignore such a partial batch.
                break
            is_valid_crc = crc == crc32c(data[position + _CRC_END : end])
            batches.append(
                {
                    "base_offset": base_offset,
                    "length": length,
                    "partition_leader_epoch": epoch,
                    "magic": magic,
                    "crc": crc if is_comparable else is_valid_crc,
                    "attributes": attributes,
                    "last_offset_delta": last_delta,
                    "base_timestamp": "broker's" if attributes & CONTROL else base_timestamp,
                    "max_timestamp": "broker's" if is_broker_time else max_timestamp,
                    "producer_id": self.symbol("producer_id", header[9]),
                    "producer_epoch": header[10],
                    "base_sequence": header[11],
                    "records_count": header[12],
                    "payload": data[position + _BATCH_HEADER.size : end].hex(),
                }
            )
            position = end
        return batches


def _presence(value: object) -> Tree:
    if value is None or value == _NONE:
        return "none"
    if value == "":
        return "empty"
    return "number" if isinstance(value, int) else "text"


def _time(value: object) -> Tree:
    assert isinstance(value, int), value
    return value if value < _CLIENT_TIMES_END else "broker's"
