"""`kafka-dump-log`: print the batches and records of segments, and the entries of indexes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.formats.kafka_json import record_as_json
from kafkalite.docker.tools.arguments import ToolError, ToolParser
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.protocol import codec
from kafkalite.protocol.codec_helpers import decode_varint
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.storage.batch import split_batches
from kafkalite.storage.compression import CODEC_NUMBERS
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol.codec import RecordLog
    from kafkalite.storage.batch import BatchView

_DECODERS: Final[Mapping[str, RecordLog]] = {
    "offsets-decoder": "group",
    "transaction-log-decoder": "transaction",
    "share-group-state-decoder": "share",
}
"""Option → the log of coordinators whose records it prints."""
_METADATA_DECODER: Final = "cluster-metadata-decoder"
_REMOTE_DECODER: Final = "remote-log-metadata-decoder"
_VERSION: Final = struct.Struct(">h")
_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_INDEX_ENTRY: Final = struct.Struct(">qi")
_CODECS: Final = {number: name for name, number in CODEC_NUMBERS.items() if number}
_STRING_DECODER: Final = "StringDecoder"
_NO_CODEC: Final = "none"
_OWN_FIELDS: Final = frozenset(("incarnationEpoch",))
"""Fields of metadata records that Kafka does not have, so that its tool ignores them."""
_MARKERS: Final = ("ABORT", "COMMIT")
_DAMAGED: Final = (
    *(KafkaError, ProtocolViolation, MalformedRecordsError),
    *(struct.error, IndexError, UnicodeDecodeError),
)
"""Errors of batches, and of records that a decoder cannot read."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    del environment
    return run_tool(name, lambda: _run(name, arguments))


def _run(name: str, arguments: Sequence[str]) -> int:
    parser = ToolParser(name, "Print the batches of segments, and the entries of indexes.")
    parser.add_values("files", metavar="LIST")
    parser.add_switches("print-data-log", "deep-iteration", "skip-record-metadata")
    parser.add_switches("index-sanity-check", "verify-index-only", *_DECODERS, _METADATA_DECODER)
    parser.add_values("max-message-size", "max-bytes", type=int)
    parser.add_values("key-decoder-class", "value-decoder-class", default=_STRING_DECODER)
    parser.add_switches(_REMOTE_DECODER)
    parsed = parser.parse(arguments)
    if parsed.remote_log_metadata_decoder:
        parser.error(f"--{_REMOTE_DECODER}: kafkalite has no remote logs, so no metadata of them")
    if not parsed.files:
        parser.error('Missing required argument "[files]"')
    for option in ("key-decoder-class", "value-decoder-class"):
        name = getattr(parsed, option.replace("-", "_"))
        if name.rpartition(".")[2] != _STRING_DECODER:
            parser.error(f"--{option}: only {_STRING_DECODER} is supported here, not {name}")
    for path in filter(None, map(str.strip, parsed.files.split(","))):
        write_line(f"Dumping {path}")
        suffix = Path(path).suffix
        if suffix in (".log", ".snapshot", ".checkpoint"):
            _dump_log(path, parsed)
        elif suffix in (".index", ".timeindex"):
            _dump_index(path, is_time=suffix == ".timeindex", checks=parsed.index_sanity_check)
        else:
            write_line(f"Ignoring unknown file {path}")
    return 0


def _dump_index(path: str, *, is_time: bool, checks: bool) -> None:
    """Print the entries of an index; with `checks`, only whether its size is valid."""
    layout = _TIME_INDEX_ENTRY if is_time else _INDEX_ENTRY
    data = Path(path).read_bytes()
    if len(data) % layout.size:
        raise ToolError(f"{path} is damaged: its size is no multiple of {layout.size}")
    if checks:
        write_line(f"{path} passed sanity check.")
        return
    stem = Path(path).stem
    if not stem.isdecimal():
        raise ToolError(f"{path} has no valid name: that of an index is its first offset")
    base = int(stem)
    for number, (first, second) in enumerate(layout.iter_unpack(data)):
        if number and not (first or second):
            return  # the rest of the file is preallocated
        if is_time:
            write_line(f"timestamp: {first} offset: {base + second}")
        else:
            write_line(f"offset: {base + first} position: {second}")


def _dump_log(path: str, parsed: Namespace) -> None:
    data = Path(path).read_bytes()
    if parsed.max_bytes is not None:
        data = data[: parsed.max_bytes]
    stem = Path(path).stem
    if stem.isdecimal():
        write_line(f"Log starting offset: {int(stem)}")
    decoders = [option for option in (*_DECODERS, _METADATA_DECODER)
                if getattr(parsed, option.replace("-", "_"))]  # fmt: skip
    shows_records = parsed.print_data_log or parsed.deep_iteration or bool(decoders)
    position = 0
    try:
        for batch in split_batches(data):
            write_line(_batch_line(batch, position))
            position += batch.size
            if shows_records:
                for line in _record_lines(batch, decoders[0] if decoders else None, parsed):
                    write_line(line)
    except _DAMAGED as error:
        raise ToolError(f"{path} is damaged at position {position}: {error}") from error
    if position < len(data):
        write_line(f"Found {len(data) - position} invalid bytes at the end of {Path(path).name}")


def _batch_line(batch: BatchView, position: int) -> str:
    horizon = batch.delete_horizon_ms
    time = "LogAppendTime" if batch.is_log_append_time else "CreateTime"
    fields = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": _java(batch.is_transactional),
        "isControl": _java(batch.is_control),
        "deleteHorizonMs": f"OptionalLong[{horizon}]" if horizon else "OptionalLong.empty",
        "position": position,
        time: batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compresscodec": _CODECS.get(batch.compression, _NO_CODEC),
        "crc": batch.crc,
        "isvalid": _java(batch.has_valid_crc()),
    }
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _java(value: bool) -> str:  # noqa: FBT001 - the only argument
    return str(value).lower()


def _record_lines(batch: BatchView, decoder: str | None, parsed: Namespace) -> list[str]:
    time = "LogAppendTime" if batch.is_log_append_time else "CreateTime"
    lines = []
    for record in batch.records():
        parts = []
        if not parsed.skip_record_metadata:
            sequence = -1 if batch.base_sequence < 0 else (
                batch.base_sequence + record.offset - batch.base_offset
            )  # fmt: skip
            names = ",".join(name for name, _ in record.headers)
            parts = [
                f"offset: {record.offset}",
                f"{time}: {record.timestamp}",
                f"keySize: {_size(record.key)}",
                f"valueSize: {_size(record.value)}",
                f"sequence: {sequence}",
                f"headerKeys: [{names}]",
            ]
        parts += _content(record.key, record.value, decoder, is_control=batch.is_control)
        lines.append(f"| {' '.join(parts)}" if parts else "")
    return lines


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _content(
    key: bytes | None, value: bytes | None, decoder: str | None, *, is_control: bool
) -> list[str]:
    """Return the texts of a key and of a value."""
    if is_control:
        return _control(key, value)
    if decoder == _METADATA_DECODER:
        return [f"payload: {_metadata(value)}"]
    if decoder is not None:
        return _coordinator_record(key, value, _DECODERS[decoder])
    parts = []
    if key is not None:
        parts.append(f"key: {key.decode(errors='replace')}")
    if value is not None:
        parts.append(f"payload: {value.decode(errors='replace')}")
    return parts


def _control(key: bytes | None, value: bytes | None) -> list[str]:
    """Return the marker of a transaction; nothing for other control records."""
    kind = _VERSION.unpack_from(key, _VERSION.size)[0] if key else len(_MARKERS)
    if kind >= len(_MARKERS) or value is None:
        return []
    epoch = int.from_bytes(value[_VERSION.size :][:4])
    return [f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {epoch}"]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _metadata(value: bytes | None) -> str:
    if value is None:
        return "null"
    # The version is the third of the numbers before the body.
    _, position = decode_varint(value, 0)
    _, position = decode_varint(value, position)
    version, _ = decode_varint(value, position)
    record = codec.decode_metadata_record(value)
    data = {
        name: value
        for name, value in record_as_json(record, version).items()
        if name not in _OWN_FIELDS
    }
    return _json({"type": record.CODEC.upper(), "version": version, "data": data})


def _coordinator_record(key: bytes | None, value: bytes | None, log: RecordLog) -> list[str]:
    decoded: Any = None if key is None else codec.decode_key(key, log)
    if key is None or decoded is None:
        return ["key: <unknown>"]
    (kind,) = _VERSION.unpack_from(key)
    parts = [f"key: {_json({'type': str(kind), 'data': record_as_json(decoded, 0)})}"]
    if value is None:
        return [*parts, "payload: <DELETE>"]
    (version,) = _VERSION.unpack_from(value)
    data = record_as_json(codec.decode_value(kind, value, log), version)
    return [*parts, f"payload: {_json({'version': str(version), 'data': data})}"]
