"""Records as lines: JSON, text, base64 or hexadecimal; `consume` writes what `produce` reads.

A line of JSON has the fields of a record in the control API. Keys and values that are not UTF-8 are
in base64 in it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from kafkalite.client.record_sender import NumberedRecord
from kafkalite.client.records import ConsumerRecord, ProducerRecord
from kafkalite.config.typed_json import About, read
from kafkalite.control.commands.records import NewRecordFields
from kafkalite.ports.times import is_date, iso_of
from kafkalite.storage.record_text import text_and_base64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.storage.record_format import Headers

_NOTHING: Final = b"null"
_MAX_PARTITION: Final = 2**31 - 1


class LineError(ValueError):
    """A line that is no record; the text has its number."""


@dataclass(frozen=True, slots=True)
class JsonRecord(NewRecordFields):
    """A line of JSON. The last three fields are those of consumed records, and have no effect."""

    partition: Annotated[int | None, About("Partition.", minimum=0, maximum=_MAX_PARTITION)] = None
    topic: Annotated[str | None, About("Topic.")] = None
    offset: Annotated[int | None, About("Offset.")] = None
    timestamp_iso: Annotated[str | None, About("The timestamp in ISO 8601.")] = None


def record_of_json(number: int, line: bytes) -> NumberedRecord:
    """Return the record of a line of JSON; raises LineError."""
    try:
        fields = read(JsonRecord, json.loads(line), "a record")
        record = fields.record(0)
    except (ValueError, RecursionError) as error:
        raise LineError(f"line {number}: {_reason(error)}") from None
    produced = ProducerRecord(
        record.value, record.key, record.headers, timestamp_ms=fields.timestamp_ms
    )
    return NumberedRecord(number, produced, fields.partition)


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"this is not JSON: {error.msg.lower()} at character {error.pos + 1}"
    if isinstance(error, UnicodeDecodeError):
        return "this is not JSON: it is not UTF-8"
    return "this is not JSON: it is too deep" if isinstance(error, RecursionError) else str(error)


DECODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "text": bytes,
    "base64": lambda content: b64decode(content, validate=True),
    "hex": lambda content: bytes.fromhex(content.decode("ascii")),
}
"""Format of lines that are not JSON → function that decodes a key or a value."""

_ENCODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "text": bytes,
    "base64": b64encode,
    "hex": lambda content: content.hex().encode(),
}


def record_of_text(
    number: int, line: bytes, encoding: str, separator: bytes | None, headers: Headers
) -> NumberedRecord:
    """Return the record of a line with a key and a value, or a value if there is no separator.

    Raises LineError.
    """
    decode = DECODERS[encoding]
    key: bytes | None = None
    value = line
    if separator is not None:
        key, found, value = line.partition(separator)
        if not found:
            raise LineError(
                f"line {number} has no key: {separator.decode()!r} does not occur in it"
            )
    try:
        decoded_key = None if key is None else decode(key)
        record = ProducerRecord(decode(value), decoded_key, headers)
    except ValueError as error:
        raise LineError(f"line {number} is not {encoding}: {error}") from None
    return NumberedRecord(number, record)


def json_line(record: ConsumerRecord) -> bytes:
    """Return a consumed record as a line of JSON."""
    topic, partition = record.partition
    shape = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_time(record.timestamp_ms),
        **_content("key", record.key),
        **_content("value", record.value),
        "headers": [{"key": name, **_content("value", value)} for name, value in record.headers],
    }
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _time(timestamp_ms: int) -> dict[str, str]:
    return {"timestamp_iso": iso_of(timestamp_ms)} if is_date(timestamp_ms) else {}


def _content(name: str, content: bytes | None) -> dict[str, Any]:
    text, base64 = text_and_base64(content)
    return {name: text} if base64 is None else {f"{name}_base64": base64}


def text_line(record: ConsumerRecord, encoding: str, separator: bytes | None) -> bytes:
    """Return a consumed record as a line with its value, or with key and value; None is `null`."""
    encode = _ENCODERS[encoding]
    contents = (record.value,) if separator is None else (record.key, record.value)
    parts = [_NOTHING if content is None else encode(content) for content in contents]
    return (separator or b"").join(parts) + b"\n"
