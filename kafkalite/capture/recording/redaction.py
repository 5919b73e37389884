"""Redaction of messages: secrets are replaced by zeros or asterisks of the same length.

A message that may have secrets is decoded, its secrets are overwritten, and it is encoded again.
Its length is unchanged, so every tool can decode it. A message that cannot be decoded is
overwritten after its header.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.formats.comments import PacketNote
from kafkalite.capture.reading.messages import (
    CORRELATION_BYTES,
    request_header,
    response_start,
    response_version,
)
from kafkalite.capture.recording.frame_splitting import LENGTH_BYTES, MIN_REQUEST_BYTES, blank_frame
from kafkalite.protocol import codec
from kafkalite.protocol.catalogue import ROWS, structs_at, values_at
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.capture.recording.frame_splitting import TreatedFrame
    from kafkalite.protocol.catalogue import Fields

    OverwriteSecrets = Callable[[Any], int]

SENSITIVE_NAME: Final = re.compile(
    r"passw(or)?d|passphrase|secret|credential|jaas|master\.key|private[._-]?key|api[._-]?key"
    r"|keystore\.key|keystore\.certificate|truststore\.certificates|assertion|user\.info"
    r"|(access|auth|api|bearer|session|refresh)[._-]?token$",
    re.IGNORECASE,
)
"""Names of settings whose values are secret, including those of clients and connectors."""


def _overwrite(struct: Any, field: str) -> int:  # noqa: ANN401 - structs of any message
    """Overwrite a bytes or text field; return its size in bytes."""
    value = getattr(struct, field)
    if not value:
        return 0
    size = len(value) if isinstance(value, bytes) else len(value.encode())
    setattr(struct, field, bytes(size) if isinstance(value, bytes) else "*" * size)
    return size


def _overwrite_setting(setting: Any) -> int:  # noqa: ANN401
    """Overwrite the value of a secret setting, and of its synonyms; return the size in bytes."""
    is_sensitive = getattr(setting, "is_sensitive", False)
    return sum(
        _overwrite(row, "value")
        for row in (setting, *(getattr(setting, "synonyms", None) or ()))
        if is_sensitive or SENSITIVE_NAME.search(row.name)
    )


def _make_overwriter(fields: Fields) -> OverwriteSecrets:
    """Return a function that overwrites the secrets of a message and returns their size."""
    credentials, settings = fields.credentials.split(), fields.setting.split()

    def overwrite(message: Any) -> int:  # noqa: ANN401
        count = 0
        for path in credentials:
            name = path.rpartition(".")[2]
            count += sum(_overwrite(struct, name) for struct in structs_at(message, path))
        for path in settings:
            count += sum(map(_overwrite_setting, values_at(message, path)))
        return count

    return overwrite


SECRETS_OF_REQUESTS: Final[Mapping[int, OverwriteSecrets]] = {
    key: _make_overwriter(row.request)
    for key, row in ROWS.items()
    if row.request.credentials or row.request.setting
}
"""API key → function that overwrites the secrets of a request and returns their size."""

SECRETS_OF_RESPONSES: Final[Mapping[int, OverwriteSecrets]] = {
    key: _make_overwriter(row.response)
    for key, row in ROWS.items()
    if row.response.credentials or row.response.setting
}


def redact_request(frame: bytes) -> TreatedFrame:
    """Return a request frame of an API in SECRETS_OF_REQUESTS, with overwritten secrets."""
    body = frame[LENGTH_BYTES:]
    start = LENGTH_BYTES
    try:
        header = request_header(body)
        start += header.start
        key, version = header.api_key, header.api_version
        parse, build = codec.request_parser(key, version), codec.request_builder(key, version)
        return _overwrite_secrets(SECRETS_OF_REQUESTS[key], frame, start, parse, build)
    except (KeyError, *codec.PARSE_ERRORS):
        return blank_frame(frame, max(start, LENGTH_BYTES + MIN_REQUEST_BYTES))


def redact_response(api_key: int, request_version: int, frame: bytes) -> TreatedFrame:
    """Return a response frame of an API in SECRETS_OF_RESPONSES, with overwritten secrets."""
    body = frame[LENGTH_BYTES:]
    try:
        start = LENGTH_BYTES + response_start(body, api_key, request_version)
        version = response_version(body, api_key, request_version)
        parse = codec.response_parser(api_key, version)
        build = codec.response_builder(api_key, version)
        return _overwrite_secrets(SECRETS_OF_RESPONSES[api_key], frame, start, parse, build)
    except (KeyError, *codec.PARSE_ERRORS):
        return blank_frame(frame, LENGTH_BYTES + CORRELATION_BYTES)


def _overwrite_secrets(
    overwrite: OverwriteSecrets, frame: bytes, start: int, parse: codec.Parser, build: codec.Builder
) -> TreatedFrame:
    """Return a frame whose secrets `overwrite` has overwritten, with the same length."""
    message, end = parse(frame, start, len(frame))
    count = overwrite(message)
    if not count and end == len(frame):
        return frame, None
    out: list[bytes | memoryview] = []
    build(message, out)
    encoded = b"".join(out)
    if end != len(frame) or len(encoded) != end - start or message.unknown_tags:
        # Bytes after the message, and unknown tagged fields, may be secret.
        raise ProtocolViolation("the message does not encode to the same bytes")
    return frame[:start] + encoded, PacketNote(blanked=count)
