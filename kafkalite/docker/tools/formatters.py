"""Formatters of Kafka's console consumers: how a record is printed."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalite.docker.tools.arguments import ToolError
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.client.records import ConsumerRecord
    from kafkalite.protocol.codec import RecordLog

_PRINTS: Final = (
    *("print.timestamp", "print.partition", "print.offset", "print.delivery", "print.epoch"),
    *("print.headers", "print.key", "print.value"),
)
"""Properties that print a part of a record, in the order of the parts."""
_SEPARATORS: Final = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ","}
_NULL: Final = "null.literal"
_DESERIALIZED: Final = ("key.deserializer", "value.deserializer", "headers.deserializer")
PROPERTIES: Final = (*_PRINTS, *_SEPARATORS, _NULL, *_DESERIALIZED)
_NO_HEADERS: Final = b"NO_HEADERS"
_ABSENT: Final = b"NOT_PRESENT"
_PREFIX: Final = struct.Struct(">h")


def _number(form: str) -> Callable[[bytes], bytes]:
    layout = struct.Struct(form)

    def decode(content: bytes) -> bytes:
        if len(content) != layout.size:
            raise ToolError(f"Size of data received by the deserializer is not {layout.size}")
        return str(layout.unpack(content)[0]).encode()

    return decode


_DESERIALIZERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "String": bytes,
    "ByteArray": bytes,
    "Short": _number(">h"),
    "Integer": _number(">i"),
    "Long": _number(">q"),
    "Double": _number(">d"),
}
"""Class of `org.apache.kafka.common.serialization` without `Deserializer` → what it does."""


class Formatter(Protocol):
    """Converts a record to what a console consumer prints."""

    def __call__(self, record: ConsumerRecord, delivery_count: int | None = None) -> bytes:
        """Return the bytes; none if the record is not printed."""


class DefaultFormatter:
    """Prints the parts of a record that properties select."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Create it; raises ToolError for an unknown property or deserializer."""
        if unknown := properties.keys() - set(PROPERTIES):
            raise ToolError(
                f"--property {', '.join(sorted(unknown))} is not supported here; supported are "
                f"{', '.join(PROPERTIES)}"
            )
        values = {"print.value": "true", **properties}
        self._prints = {
            name for name in _PRINTS if values.get(name, "false").strip().lower() == "true"
        }
        self._separator, self._end, self._headers_separator = (
            values.get(name, default).encode() for name, default in _SEPARATORS.items()
        )
        self._null = values.get(_NULL, "null").encode()
        self._key, self._value, self._header = (
            _deserializer(values.get(name)) for name in _DESERIALIZED
        )

    def __call__(self, record: ConsumerRecord, delivery_count: int | None = None) -> bytes:
        """Return the line of a record."""
        kind = "LogAppendTime" if record.is_log_append_time else "CreateTime"
        parts = {
            "print.timestamp": f"{kind}:{record.timestamp_ms}".encode(),
            "print.partition": f"Partition:{record.partition.partition}".encode(),
            "print.offset": f"Offset:{record.offset}".encode(),
            "print.delivery": b"Delivery:"
            + (_ABSENT if delivery_count is None else str(delivery_count).encode()),
            # Kafka's tool does not pass the leader epoch on to its formatters.
            "print.epoch": b"Epoch:" + _ABSENT,
        }
        if "print.headers" in self._prints:
            parts["print.headers"] = self._headers(record)
        if "print.key" in self._prints:
            parts["print.key"] = self._content(record.key, self._key)
        if "print.value" in self._prints:
            parts["print.value"] = self._content(record.value, self._value)
        shown = [parts[name] for name in _PRINTS if name in self._prints]
        return self._separator.join(shown) + self._end if shown else b""

    def _headers(self, record: ConsumerRecord) -> bytes:
        headers = [
            key.encode() + b":" + self._content(value, self._header)
            for key, value in record.headers
        ]
        return self._headers_separator.join(headers) or _NO_HEADERS

    def _content(self, content: bytes | None, decode: Callable[[bytes], bytes]) -> bytes:
        return self._null if content is None else decode(content)


def _deserializer(name: str | None) -> Callable[[bytes], bytes]:
    """Return the function of the class of a deserializer; raises ToolError."""
    if name is None:
        return bytes
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short not in _DESERIALIZERS:
        known = ", ".join(f"{each}Deserializer" for each in _DESERIALIZERS)
        raise ToolError(f"{name} is not supported here; supported deserializers are {known}")
    return _DESERIALIZERS[short]


class LoggingFormatter:
    """Prints the line of a record like a line of a log."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._default = DefaultFormatter(properties)

    def __call__(self, record: ConsumerRecord, delivery_count: int | None = None) -> bytes:
        """Return the line of a record, and a second one with all of its parts."""
        kind = "LogAppendTime" if record.is_log_append_time else "CreateTime"
        key, value = (
            "null" if each is None else each.decode(errors="replace")
            for each in (record.key, record.value)
        )
        line = f"{kind}:{record.timestamp_ms}, key:{key}, value:{value}\n"
        return self._default(record, delivery_count) + line.encode()


class NoFormatter:
    """Prints nothing."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def __call__(self, record: ConsumerRecord, delivery_count: int | None = None) -> bytes:
        """Return nothing."""
        del record, delivery_count
        return b""


class _Log(NamedTuple):
    """A log of coordinators, and the names of keys that a formatter prints; None for all."""

    name: RecordLog
    keys: tuple[str, ...] | None = None


class LogFormatter:
    """Prints records of a log of coordinators as JSON."""

    def __init__(self, log: _Log) -> None:
        self._log = log

    def __call__(self, record: ConsumerRecord, delivery_count: int | None = None) -> bytes:
        """Return the key and the value of a record; nothing for records of other types."""
        from kafkalite.capture.formats.kafka_json import record_as_json  # noqa: PLC0415 - rare
        from kafkalite.protocol import codec  # noqa: PLC0415 - as above

        del delivery_count
        if not record.key or len(record.key) < _PREFIX.size:
            return b""
        (kind,) = _PREFIX.unpack_from(record.key)
        key = codec.decode_key(record.key, self._log.name)
        if key is None or (self._log.keys is not None and key.CODEC not in self._log.keys):
            return b""
        shown: dict[str, Any] = {"key": {"type": kind, "data": record_as_json(key, 0)}}
        if record.value is None:
            shown["value"] = None
        else:
            (version,) = _PREFIX.unpack_from(record.value)
            value = codec.decode_value(kind, record.value, self._log.name)
            data = record_as_json(value, version)
            if self._log.name == "transaction":
                data["transactionStatus"] = _status(data["transactionStatus"])
            shown["value"] = {"version": version, "data": data}
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()


def _status(number: int) -> str:
    from kafkalite.transactions.state import TransactionState  # noqa: PLC0415 - rarely used

    return TransactionState(number).label


_LOGS: Final[Mapping[str, _Log]] = {
    "OffsetsMessageFormatter": _Log("group", ("legacy_offset_commit_key", "offset_commit_key")),
    "GroupMetadataMessageFormatter": _Log("group", ("group_metadata_key",)),
    "CoordinatorRecordMessageFormatter": _Log("group"),
    "TransactionLogMessageFormatter": _Log("transaction"),
    "ShareGroupStateMessageFormatter": _Log("share"),
}
_CLASSES: Final[Mapping[str, Callable[[Mapping[str, str]], Formatter]]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": NoFormatter,
}


def formatter_of(name: str | None, properties: Mapping[str, str]) -> Formatter:
    """Return the formatter of a class of Kafka, by its name in any release; raises ToolError."""
    if name is None:
        return DefaultFormatter(properties)
    short = name.replace("$", ".").rpartition(".")[2]
    if short in _LOGS:
        return LogFormatter(_LOGS[short])
    if short in _CLASSES:
        return _CLASSES[short](properties)
    raise ToolError(
        f"--formatter {name} is not supported here; supported are {', '.join((*_CLASSES, *_LOGS))}"
    )
