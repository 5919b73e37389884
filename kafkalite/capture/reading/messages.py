"""Parsing of frames: request and response headers and bodies."""

# ruff: noqa: ANN401 - the message class depends on the API key
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.api_names import known_api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.headers import HEADER_BYTES, skip_tagged_fields, unpack_header

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
CORRELATION_BYTES: Final = 4

_UNSUPPORTED_VERSION: Final = b"\x00\x23"
_SPARE_BYTES: Final = {(API_VERSIONS, 0): bytes(4)}
"""API and version → bytes after the request of librdkafka before 1.0, which brokers skip."""
_CACHE_SIZE: Final = 1024
_SIGN_BIT: Final = 0x8000


class Header(NamedTuple):
    """A request's header, and the offset of the body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    start: int


def request_header(frame: bytes) -> Header:
    """Parse a request's header; raises `ProtocolViolation` if it is invalid."""
    size = len(frame)
    if size < HEADER_BYTES:
        raise ProtocolViolation(f"a request of {size} bytes is too short")
    api_key_and_version, correlation_id, client_size = unpack_header(frame, 0)
    api_key, api_version = api_key_and_version >> 16, api_key_and_version & 0xFFFF
    start = HEADER_BYTES + max(0, client_size)
    if api_key >= _SIGN_BIT or start > size:
        raise ProtocolViolation("invalid request header")
    try:
        client_id = None if client_size < 0 else frame[HEADER_BYTES:start].decode()
    except UnicodeDecodeError:
        raise ProtocolViolation("the client id is not UTF-8") from None
    if _is_flexible(api_key, api_version):
        start = skip_tagged_fields(frame, start, size)
    return Header(api_key, api_version, correlation_id, client_id, start)


@lru_cache(_CACHE_SIZE)
def _is_flexible(api_key: int, api_version: int) -> bool:
    try:
        return codec.is_flexible(api_key, api_version)
    except KeyError:
        return True  # new APIs are flexible


def api_name(api_key: int) -> str:
    """Return an API's name, or "API <key>" if it is unknown."""
    return known_api_name(api_key) or f"API {api_key}"


def unknown_request_title(api_key: int, api_version: int) -> str:
    """Return a text that names an unknown version of an API, and the known versions."""
    title = f"{api_name(api_key)} v{api_version}"
    if api_key not in codec.api_keys():
        return title
    return f"{title} (known versions: {codec.api_versions(api_key, unstable=True)})"


def error_name(code: int) -> str:
    """Return Kafka's name of an error, or "error <code>" if it is unknown."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def is_known(api_key: int, api_version: int) -> bool:
    """Whether there is a codec for a version of an API."""
    return (api_key, api_version) in _known_versions()


@lru_cache(1)
def _known_versions() -> frozenset[tuple[int, int]]:
    ranges = ((key, codec.api_versions(key, unstable=True)) for key in codec.api_keys())
    return frozenset(
        (key, version) for key, versions in ranges for version in versions.within(versions)
    )


def response_start(frame: bytes, api_key: int, api_version: int) -> int:
    """Return the offset of a response's body; raises `ProtocolViolation` for an invalid header."""
    if len(frame) < CORRELATION_BYTES:
        raise ProtocolViolation(f"a response of {len(frame)} bytes is too short")
    if api_key == API_VERSIONS or not _is_flexible(api_key, api_version):
        return CORRELATION_BYTES
    return skip_tagged_fields(frame, CORRELATION_BYTES, len(frame))


def response_version(frame: bytes, api_key: int, api_version: int) -> int:
    """Return the version of a response: the version of its request, with one exception.

    A broker that does not know the version of an ApiVersions request answers in version 0.
    """
    error = frame[CORRELATION_BYTES : CORRELATION_BYTES + len(_UNSUPPORTED_VERSION)]
    return 0 if api_key == API_VERSIONS and error == _UNSUPPORTED_VERSION else api_version


def parse_request(exchange: Exchange) -> Any:
    """Return the parsed request; raises `ProtocolViolation` if it is malformed."""
    return _parse(exchange, exchange.request, exchange.request_start, is_request=True)


def parse_response(exchange: Exchange) -> Any:
    """Return the parsed response, None if there is none; raises `ProtocolViolation`."""
    if exchange.response is None:
        return None
    return _parse(exchange, exchange.response, exchange.response_start, is_request=False)


def _parse(exchange: Exchange, frame: bytes, start: int, *, is_request: bool) -> Any:
    api_key, api_version = exchange.api_key, exchange.api_version
    try:
        if is_request:
            parse = codec.request_parser(api_key, api_version)
        else:
            api_version = response_version(frame, api_key, api_version)
            parse = codec.response_parser(api_key, api_version)
    except KeyError:
        raise ProtocolViolation(
            f"unknown version: {unknown_request_title(api_key, api_version)}"
        ) from None
    try:
        message, _ = parse(frame, start, len(frame))
    except codec.PARSE_ERRORS as error:
        name, kind = codec.api_name(api_key), "request" if is_request else "response"
        raise ProtocolViolation(f"malformed {name} {kind} v{api_version}: {error}") from None
    return message


def is_request(frame: bytes) -> bool:
    """Whether the frame parses to its end as a request of a known API and version.

    Bytes that some clients send after requests may follow.
    """
    try:
        header = request_header(frame)
        parse = codec.request_parser(header.api_key, header.api_version)
        _, end = parse(frame, header.start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS):
        return False
    return end == len(frame) or frame[end:] == _SPARE_BYTES.get(header[:2])


def is_response(frame: bytes, api_key: int, api_version: int) -> bool:
    """Whether the frame parses to its end as a response of this API and version."""
    try:
        start = response_start(frame, api_key, api_version)
        parse = codec.response_parser(api_key, response_version(frame, api_key, api_version))
        _, end = parse(frame, start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS):
        return False
    return end == len(frame)
