"""Answers made comparable: what may differ between two brokers is named here, and nowhere else.

An id becomes a symbol by first appearance (`member_id#1`), so that two answers which name the
same member still do.  A time, a port or a directory counts only as present.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from enum import Enum
from typing import TypeAlias

from crc32c import crc32c

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.message import Message
from tests.conformance.batches import BASE_TIMESTAMP, CONTROL, LOG_APPEND_TIME

Tree: TypeAlias = "str | int | float | bool | list[Tree] | dict[str, Tree] | None"

# Kafka's word for "none" in a number.
_NONE = -1


class Rule(Enum):
    """What is left of a field's value."""

    DROP = "not compared at all"
    PRESENT = "only whether there is one"
    TIME = "itself if a client set it, else that the broker did"
    SYMBOL = "which of the values seen so far"


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
    # Wordings are our own; that something is said, or not, is Kafka's.
    "error_message": Rule.PRESENT,
    "acknowledge_error_message": Rule.PRESENT,
    "status_detail": Rule.PRESENT,
    "batch_index_error_message": Rule.PRESENT,
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

# Lists whose order means nothing (Kafka fills them from hash maps), by the field that names a row.
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

# Lists of plain values that are sets in Kafka, and come in whatever order they hash to.
SETS = frozenset(("partitions", "subscribed_topic_names", "unknown_state_filters", "partition_ids"))

_BATCH_HEAD = struct.Struct(">qiibIhiqqqhii")
_CRC_ENDS = 21

# The values of an id that stand for none.
_NOBODY: defaultdict[str, set[object]] = defaultdict(
    lambda: {None, "", _NONE, 0, bytes(16)}, {"producer_id": {_NONE}}
)

# Fields whose ids are of the same kind as those of another.
_SAME_KIND = {
    "leader": "member_id",
    "previous_producer_id": "producer_id",
    "next_producer_id": "producer_id",
}

# A time before this comes from a batch made by hand.
_CLIENTS_END = BASE_TIMESTAMP + 1_000_000_000


class Normaliser:
    """Remembers which ids were seen, for one scenario on one broker."""

    def __init__(self, ignored: frozenset[str] = frozenset()) -> None:
        self._ignored = ignored
        self._symbols: dict[str, dict[object, str]] = defaultdict(dict)

    def name(self, field: str, value: object, symbol: str) -> None:
        """Give a value a symbol before it is first seen in an answer."""
        self._symbols[field][value] = symbol

    def tree(self, message: Message) -> dict[str, Tree]:
        """Turn a message into plain values, with what may differ taken out."""
        found: dict[str, Tree] = {}
        for name in message.__slots__:
            if RULES.get(name) is Rule.DROP or name in self._ignored:
                continue
            value = getattr(message, name)
            if name == "unknown_tags" and not value:
                continue
            found[name] = self._value(name, value)
        return found

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
        return _time(value) if rule is Rule.TIME else _presence(value)

    def symbol(self, name: str, value: object) -> Tree:
        """Give the symbol of an id that stands in a field of this name."""
        if isinstance(value, int) and name == "leader":
            return value or "none"
        kind = _SAME_KIND.get(name, name)
        if value in _NOBODY[kind]:
            return "none"
        seen = self._symbols[kind]
        return seen.setdefault(value, f"{kind}#{len(seen) + 1}")

    def _list(self, name: str, values: list[object]) -> Tree:
        rows = [self._value(name, value) for value in values]
        keys = UNORDERED.get(name, ())
        if keys and all(isinstance(row, dict) for row in rows):
            rows.sort(key=lambda row: [repr(row.get(key)) for key in keys])  # type: ignore[union-attr]
        if name in SETS and not any(isinstance(row, dict) for row in rows):
            rows.sort(key=repr)
        return rows

    def _batches(self, data: bytes) -> Tree:
        """Show record batches by their heads; what the broker set is told from what a client did.

        A checksum covers the producer's id, and so can only be compared with what it is of.
        """
        found: list[Tree] = []
        position = 0
        while position + _BATCH_HEAD.size <= len(data):
            head = _BATCH_HEAD.unpack_from(data, position)
            base_offset, length, epoch, magic, crc, attributes, last_delta, first, largest = head[
                :9
            ]
            end = position + 12 + length
            is_broker_time = bool(attributes & (LOG_APPEND_TIME | CONTROL))
            is_comparable = head[9] == _NONE and not is_broker_time
            if end > len(data):
                # Kafka cuts where a limit falls; no reader looks at such a rest.
                break
            right = crc == crc32c(data[position + _CRC_ENDS : end])
            found.append(
                {
                    "base_offset": base_offset,
                    "length": length,
                    "partition_leader_epoch": epoch,
                    "magic": magic,
                    "crc": crc if is_comparable else right,
                    "attributes": attributes,
                    "last_offset_delta": last_delta,
                    "base_timestamp": "broker's" if attributes & CONTROL else first,
                    "max_timestamp": "broker's" if is_broker_time else largest,
                    "producer_id": self.symbol("producer_id", head[9]),
                    "producer_epoch": head[10],
                    "base_sequence": head[11],
                    "records_count": head[12],
                    "payload": data[position + _BATCH_HEAD.size : end].hex(),
                }
            )
            position = end
        return found


def _presence(value: object) -> Tree:
    if value is None or value == _NONE:
        return "none"
    if value == "":
        return "empty"
    return "number" if isinstance(value, int) else "text"


def _time(value: object) -> Tree:
    assert isinstance(value, int), value
    return value if value < _CLIENTS_END else "broker's"
