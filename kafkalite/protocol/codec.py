"""Lookup of the functions that parse and build messages, by API key and version.

A codec module is imported when it is first needed. Parsers take `bytes` or `bytearray`, a position
and an end, and raise one of `PARSE_ERRORS` for invalid bytes. They return the position after the
message; the caller must check that nothing follows. Builders append to a list. A lookup raises
KeyError for an unknown API or version.
"""

# ruff: noqa: ANN401 - the message class depends on numbers in the bytes
from __future__ import annotations

import struct
from functools import cache, lru_cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkalite.protocol._generated.codecs.index import ALIASES, APIS, METADATA_RECORDS, RECORD_TYPES
from kafkalite.protocol.codec_helpers import decode_varint, encode_varint
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message

    Out = list[bytes | memoryview]
    Parser = Callable[[bytes | bytearray, int, int], tuple[Any, int]]
    Builder = Callable[[Any, Out], None]

RecordLog = Literal["group", "transaction", "share"]
"""Logs whose records begin with a type number; each log has its own type numbers."""

PARSE_ERRORS: Final = (ProtocolViolation, UnicodeDecodeError, IndexError, struct.error)
"""Exceptions of a parser for invalid bytes."""

_CODECS: Final = "kafkalite.protocol._generated.codecs"
_INT16: Final = struct.Struct(">h")
API_VERSIONS_KEY: Final = 18
_METADATA_FRAME_VERSION: Final = 1
_MAX_CACHED_PARSERS: Final = 256  # limited, because clients choose the cache keys


# -- requests and responses ---------------------------------------------------------------


def api_keys() -> tuple[int, ...]:
    """Return the keys of all APIs with codecs, in ascending order."""
    return tuple(APIS)


def api_name(api_key: int) -> str:
    """Return Kafka's name of an API, such as "OffsetCommit"."""
    return APIS[api_key][1]


def api_versions(api_key: int, *, unstable: bool = False) -> Versions:
    """Return the versions with codecs, by default without Kafka's unstable ones."""
    _, _, lowest, stable, highest, _ = APIS[api_key]
    return Versions(lowest, highest if unstable else stable)


def is_flexible(api_key: int, version: int) -> bool:
    """Whether a version has compact lengths and tagged fields."""
    first_flexible = APIS[api_key][5]
    return 0 <= first_flexible <= version


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of the header before a response.

    ApiVersions always has version 0: its response is parsed before versions are negotiated.
    """
    return 1 if is_flexible(api_key, version) and api_key != API_VERSIONS_KEY else 0


@cache
def request_parser(api_key: int, version: int) -> Parser:
    """Return the function that parses a request's body."""
    parse: Parser = _broker_codec(api_key, version).parse_request
    return parse


@cache
def response_builder(api_key: int, version: int) -> Builder:
    """Return the function that builds a response's body."""
    build: Builder = _broker_codec(api_key, version).build_response
    return build


@cache
def request_builder(api_key: int, version: int) -> Builder:
    """Return the function that builds a request's body, for clients."""
    build: Builder = getattr(_client_codec(api_key, version), f"build_request_v{version}")
    return build


@cache
def response_parser(api_key: int, version: int) -> Parser:
    """Return the function that parses a response's body, for clients."""
    parse: Parser = getattr(_client_codec(api_key, version), f"parse_response_v{version}")
    return parse


def _broker_codec(api_key: int, version: int) -> Any:
    name = f"{_stem(api_key, version)}_v{version}"
    return import_module(f"{_CODECS}.broker.{ALIASES.get(name, name)}")


def _client_codec(api_key: int, version: int) -> Any:
    return import_module(f"{_CODECS}.client.{_stem(api_key, version)}")


def _stem(api_key: int, version: int) -> str:
    stem, _, lowest, _, highest, _ = APIS[api_key]
    if not lowest <= version <= highest:
        raise KeyError((api_key, version))
    return stem


@cache
def request_class(api_key: int) -> type[Any]:
    """Return the class of an API's requests."""
    return _api_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Any]:
    """Return the class of an API's responses."""
    return _api_class(api_key, "Response")


def _api_class(api_key: int, suffix: str) -> type[Any]:
    stem, name, *_ = APIS[api_key]
    module = import_module(f"kafkalite.protocol._generated.messages.{stem}")
    found: type[Any] = getattr(module, f"{name}{suffix}")
    return found


# -- headers and records ------------------------------------------------------------------


@cache
def parser(name: str, version: int) -> Parser:
    """Return the parser of a header or record; `name` is its `CODEC`, such as "request_header"."""
    parse: Parser = _record_function(name, f"parse_v{version}")
    return parse


@cache
def builder(name: str, version: int) -> Builder:
    """Return the builder of a header or record; `name` is its `CODEC`."""
    build: Builder = _record_function(name, f"build_v{version}")
    return build


def _record_function(name: str, function: str) -> Any:
    module = import_module(f"{_CODECS}.records.{name}")
    try:
        return getattr(module, function)
    except AttributeError:
        raise KeyError((name, function)) from None


def encode_key(key: Any) -> bytes:
    """Encode a coordinator record's key: its type number, then the body in its only version."""
    kind = key.__class__
    identity = kind, _fields_of(kind)(key)
    encoded = _encoded_keys.get(identity)
    if encoded is None:
        prefix, build = _key_encoder(kind)
        out: Out = [prefix]
        build(key, out)
        encoded = b"".join(out)
        if len(_encoded_keys) >= _MAX_ENCODED_KEYS:
            _encoded_keys.clear()
        if len(encoded) <= _MAX_ENCODED_KEY_BYTES:
            _encoded_keys[identity] = encoded
    return encoded


_MAX_ENCODED_KEYS, _MAX_ENCODED_KEY_BYTES = 4096, 256

_encoded_keys: dict[object, bytes] = {}
"""Encoded keys of coordinator records, by class and values: most keys are written again and again.

They are remembered up to the maximum number, and up to the maximum size of a key.
"""


@cache
def _fields_of(kind: type[Any]) -> Callable[[Any], object]:
    """Return a function that returns the values of a key, which are numbers and short texts."""
    return attrgetter(*(name for name in kind.__slots__ if name != "unknown_tags"))


@cache
def _key_encoder(kind: type[Any]) -> tuple[bytes, Builder]:
    return _INT16.pack(kind.RECORD_TYPE), builder(kind.CODEC, kind.versions.highest)


def encode_value(value: Any, version: int) -> bytes:
    """Encode a coordinator record's value, or another message that begins with its version."""
    prefix, build = _value_encoder(value.CODEC, version)
    out: Out = [prefix]
    build(value, out)
    return b"".join(out)


@cache
def _value_encoder(name: str, version: int) -> tuple[bytes, Builder]:
    return _INT16.pack(version), builder(name, version)


def decode_key(data: bytes, log: RecordLog = "group") -> Any | None:
    """Decode a coordinator record's key; None if its type is unknown."""
    parse = _key_parser(log, data[:2])
    return None if parse is None else _parse_message(parse, data, _INT16.size)


@lru_cache(_MAX_CACHED_PARSERS)
def _key_parser(log: RecordLog, prefix: bytes) -> Parser | None:
    (record_type,) = _INT16.unpack(prefix)
    known = RECORD_TYPES[log].get(record_type)
    return None if known is None else parser(known[1], known[3])


def decode_record(key: bytes, value: bytes | None, log: RecordLog) -> tuple[Any | None, Any]:
    """Decode a coordinator's record: its key, None if the type is unknown, and its value.

    Raises `ProtocolViolation` if the version of the value is unknown.
    """
    parse = _key_parser(log, key[:2])
    if parse is None:
        return None, None
    decoded_key, _ = parse(key, _INT16.size, len(key))
    if value is None:
        return decoded_key, None
    parse = _message_parser(_value_name(log, key[:2]), value[:2])
    decoded_value, _ = parse(value, _INT16.size, len(value))
    return decoded_key, decoded_value


@lru_cache(_MAX_CACHED_PARSERS)
def _value_name(log: RecordLog, prefix: bytes) -> str:
    """Return the `CODEC` of the values of a known type of keys."""
    return RECORD_TYPES[log][_INT16.unpack(prefix)[0]][2]


def decode_value(key_type: int, data: bytes, log: RecordLog = "group") -> Any:
    """Decode the value of a key with this type."""
    return decode_message(RECORD_TYPES[log][key_type][2], data)


def decode_message(name: str, data: bytes) -> Any:
    """Decode a message that begins with its version; `name` is the `CODEC` of its class.

    Examples are record values, and a classic consumer's subscription and assignment. Raises
    `ProtocolViolation` if the version is unknown.
    """
    return _parse_message(_message_parser(name, data[:2]), data, _INT16.size)


@lru_cache(_MAX_CACHED_PARSERS)
def _message_parser(name: str, prefix: bytes) -> Parser:
    (version,) = _INT16.unpack(prefix)
    try:
        return parser(name, version)
    except KeyError:
        raise ProtocolViolation(f"{name} of version {version}") from None


def encode_metadata_record(record: Any, version: int) -> bytes:
    """Encode a metadata log record: frame version, API key, version as varints; then the body."""
    frame, build = _metadata_builder(record.__class__, version)
    out: Out = [frame]
    build(record, out)
    return b"".join(out)


@lru_cache(_MAX_CACHED_PARSERS)
def _metadata_builder(record_class: Any, version: int) -> tuple[bytes, Builder]:
    frame = (_METADATA_FRAME_VERSION, record_class.API_KEY, version)
    return b"".join(map(encode_varint, frame)), builder(record_class.CODEC, version)


def decode_metadata_record(data: bytes) -> Any:
    """Decode a metadata log record; raises `ProtocolViolation` if its type is unknown."""
    frame, pos = decode_varint(data, 0)
    api_key, pos = decode_varint(data, pos)
    version, pos = decode_varint(data, pos)
    name = METADATA_RECORDS.get(api_key)
    if frame != _METADATA_FRAME_VERSION or name is None:
        raise ProtocolViolation(f"a metadata record of frame {frame} and type {api_key}")
    try:
        parse = parser(name, version)
    except KeyError:
        raise ProtocolViolation(f"{name} of version {version}") from None
    return _parse_message(parse, data, pos)


def _parse_message(parse: Parser, data: bytes, pos: int) -> Message:
    message: Message
    message, _ = parse(data, pos, len(data))
    return message
