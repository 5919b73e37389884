"""Records of coordinators' logs as JSON: what groups, transactions and share groups store."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.kafka_json import record_as_json
from kafkalite.control.commands.topics import ShowTopic
from kafkalite.control.console.schema_values import Decoded
from kafkalite.coordinator.runtime import partition_of
from kafkalite.metadata.internal_topics import RECORD_LOGS
from kafkalite.protocol import codec
from kafkalite.protocol.codec import PARSE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.control.console.source import BrowsedRecord, ConsoleSource
    from kafkalite.protocol.codec import RecordLog

_VERSION: Final = struct.Struct(">h")
_MAX_BYTES: Final = 64 * 1024


async def log_of_key(source: ConsoleSource, topic: str, key: str) -> Mapping[str, object]:
    """Return the variables `log_topic` and `log_partition` of a template.

    The partition of the internal topic is the one that has the key; None without such a topic.
    """
    try:
        status = await source.ask(ShowTopic(topic))
    except ValueError:
        return {"log_topic": topic, "log_partition": None}
    return {"log_topic": topic, "log_partition": partition_of(key, len(status.partitions))}


def decoded_records(topic: str, records: Iterable[BrowsedRecord]) -> Mapping[bytes | None, Decoded]:
    """Return what keys and values of an internal topic mean; nothing for another topic."""
    log = RECORD_LOGS.get(topic)
    if log is None:
        return {}
    found: dict[bytes | None, Decoded] = {}
    for each in records:
        size = len(each.key or b"") + len(each.value or b"")
        if each.key is not None and not each.state.endswith("marker") and size <= _MAX_BYTES:
            found |= _decoded(log, each.key, each.value)
    return found


def _decoded(log: RecordLog, key: bytes, value: bytes | None) -> Mapping[bytes | None, Decoded]:
    found: dict[bytes | None, Decoded] = {}
    try:
        decoded = codec.decode_key(key, log)
        if decoded is None:
            return found
        (kind,) = _VERSION.unpack_from(key)
        name = type(decoded).__name__.removesuffix("Key")
        found[key] = Decoded(_json(record_as_json(decoded, 0)), f"key of {name}")
        if value is not None:
            (version,) = _VERSION.unpack_from(value)
            content = record_as_json(codec.decode_value(kind, value, log), version)
            found[value] = Decoded(_json(content), f"{name}, version {version}")
    except (*PARSE_ERRORS, struct.error, LookupError):
        return found  # shown as bytes
    return found


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, ensure_ascii=False)
