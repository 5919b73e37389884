"""Frames → messages: which codec reads a request's body, and which its response's."""

# ruff: noqa: ANN401 - which class a number stands for is known only where it is read
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.headers import HEADER_BYTES, skip_tagged_fields, unpack_header

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

API_VERSIONS: Final = 18
CORRELATION_BYTES: Final = 4

_UNSUPPORTED_VERSION: Final = b"\x00\x23"
_REMEMBERED: Final = 1024
_NEGATIVE: Final = 0x8000


class Header(NamedTuple):
    """What stands before a request's body, and where that begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    start: int


def request_header(frame: bytes) -> Header:
    """Read a request's header; raises `ProtocolViolation` where the frame does not hold one."""
    size = len(frame)
    if size < HEADER_BYTES:
        raise ProtocolViolation(f"a request of {size} bytes")
    kind, correlation_id, client_size = unpack_header(frame, 0)
    api_key, api_version = kind >> 16, kind & 0xFFFF
    start = HEADER_BYTES + max(0, client_size)
    if api_key >= _NEGATIVE or start > size:
        raise ProtocolViolation("no header of a request")
    try:
        client_id = None if client_size < 0 else frame[HEADER_BYTES:start].decode()
    except UnicodeDecodeError:
        raise ProtocolViolation("a client id that is not UTF-8") from None
    if _is_flexible(api_key, api_version):
        start = skip_tagged_fields(frame, start, size)
    return Header(api_key, api_version, correlation_id, client_id, start)


@lru_cache(_REMEMBERED)
def _is_flexible(api_key: int, api_version: int) -> bool:
    try:
        return codec.is_flexible(api_key, api_version)
    except KeyError:
        return True  # APIs that are yet to come are flexible, as all new ones have been for years


def api_name(api_key: int) -> str:
    """Return an API's name, its number where it is unknown."""
    try:
        return codec.api_name(api_key)
    except KeyError:
        return f"API {api_key}"


def stranger_title(api_key: int, api_version: int) -> str:
    """Return an API's version that there is no codec for, beside those that there are."""
    title = f"{api_name(api_key)} v{api_version}"
    if api_key not in codec.api_keys():
        return title
    return f"{title}, of which {codec.api_versions(api_key, unstable=True)} are known"


def error_name(code: int) -> str:
    """Return Kafka's name of an error, its number where it has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def is_known(api_key: int, api_version: int) -> bool:
    """Whether there is a codec for a version of an API."""
    return (api_key, api_version) in _known()


@lru_cache(1)
def _known() -> frozenset[tuple[int, int]]:
    every = ((key, codec.api_versions(key, unstable=True)) for key in codec.api_keys())
    return frozenset((key, version) for key, each in every for version in each.within(each))


def response_start(frame: bytes, api_key: int, api_version: int) -> int:
    """Return where a response's body begins; raises `ProtocolViolation` where it has none."""
    if len(frame) < CORRELATION_BYTES:
        raise ProtocolViolation(f"a response of {len(frame)} bytes")
    if api_key == API_VERSIONS or not _is_flexible(api_key, api_version):
        return CORRELATION_BYTES
    return skip_tagged_fields(frame, CORRELATION_BYTES, len(frame))


def response_version(frame: bytes, api_key: int, api_version: int) -> int:
    """Return the version that a response is written in, which is its request's but for one.

    A broker that does not know the version of an ApiVersions request answers in version 0.
    """
    error = frame[CORRELATION_BYTES : CORRELATION_BYTES + len(_UNSUPPORTED_VERSION)]
    return 0 if api_key == API_VERSIONS and error == _UNSUPPORTED_VERSION else api_version


def parse_request(exchange: Exchange) -> Any:
    """Return a request's message; raises `ProtocolViolation` where that cannot be."""
    return _parse(exchange, exchange.request, exchange.request_start, is_request=True)


def parse_response(exchange: Exchange) -> Any:
    """Return a response's message, None where there is no response."""
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
            f"an unknown version: {stranger_title(api_key, api_version)}"
        ) from None
    try:
        message, _ = parse(frame, start, len(frame))
    except codec.PARSE_ERRORS as error:
        name, what = codec.api_name(api_key), "request" if is_request else "response"
        raise ProtocolViolation(f"a malformed {name} {what} v{api_version}: {error}") from None
    return message


def is_request(frame: bytes) -> bool:
    """Whether a frame is a request of a known API and version, to its very end."""
    try:
        header = request_header(frame)
        parse = codec.request_parser(header.api_key, header.api_version)
        _, end = parse(frame, header.start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS):
        return False
    return end == len(frame)


def is_response(frame: bytes, api_key: int, api_version: int) -> bool:
    """Whether a frame is a response of this API and version, to its very end."""
    try:
        start = response_start(frame, api_key, api_version)
        parse = codec.response_parser(api_key, response_version(frame, api_key, api_version))
        _, end = parse(frame, start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS):
        return False
    return end == len(frame)
