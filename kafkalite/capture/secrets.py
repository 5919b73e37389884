"""What must never be written down, and zeros or asterisks of the same length in its place.

A message that may hold secrets is taken apart, its secrets are overwritten, and it is put together
again; it then is as long as before, and any tool decodes it. One that cannot be taken apart is
overwritten whole behind its header, and so is one of an API that nobody here knows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.cutting import LENGTH_BYTES, REQUEST_HEAD_BYTES, blanked
from kafkalite.capture.messages import (
    CORRELATION_BYTES,
    request_header,
    response_start,
    response_version,
)
from kafkalite.capture.notes import PacketNote
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.capture.cutting import Treated

    Blank = Callable[[Any], int]

SASL_HANDSHAKE: Final = 17
_CREATE_TOPICS, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _INCREMENTAL_ALTER_CONFIGS = 19, 32, 33, 44
_SASL_AUTHENTICATE, _ALTER_SCRAM = 36, 51
_CREATE_TOKEN, _RENEW_TOKEN, _EXPIRE_TOKEN, _DESCRIBE_TOKENS = 38, 39, 40, 41

SENSITIVE_NAME: Final = re.compile(
    r"passw(or)?d|passphrase|secret|credential|jaas|master\.key|private[._-]?key|api[._-]?key"
    r"|keystore\.key|keystore\.certificate|truststore\.certificates|assertion|user\.info"
    r"|(access|auth|api|bearer|session|refresh)[._-]?token$",
    re.IGNORECASE,
)
"""Names of settings whose values are secret, whoever defined them."""


def _overwrite(owner: Any, field: str) -> int:  # noqa: ANN401 - structs of any message
    """Overwrite a field, of bytes or of text, and return how many bytes it had."""
    value = getattr(owner, field)
    if not value:
        return 0
    size = len(value) if isinstance(value, bytes) else len(value.encode())
    setattr(owner, field, bytes(size) if isinstance(value, bytes) else "*" * size)
    return size


def _overwrite_values(settings: Iterable[Any] | None) -> int:
    return sum(
        _overwrite(setting, "value")
        for setting in settings or ()
        if getattr(setting, "is_sensitive", False) or SENSITIVE_NAME.search(setting.name)
    )


def _bytes_of_sasl(message: Any) -> int:  # noqa: ANN401
    return _overwrite(message, "auth_bytes")


def _scram(message: Any) -> int:  # noqa: ANN401
    return sum(
        _overwrite(each, "salt") + _overwrite(each, "salted_password")
        for each in message.upsertions
    )


def _token(message: Any) -> int:  # noqa: ANN401
    return _overwrite(message, "hmac")


def _tokens(message: Any) -> int:  # noqa: ANN401
    return sum(_overwrite(each, "hmac") for each in message.tokens)


def _settings_of_topics(message: Any) -> int:  # noqa: ANN401
    return sum(_overwrite_values(topic.configs) for topic in message.topics)


def _settings_of_resources(message: Any) -> int:  # noqa: ANN401
    return sum(_overwrite_values(resource.configs) for resource in message.resources)


def _described_settings(message: Any) -> int:  # noqa: ANN401
    count = 0
    for result in message.results:
        count += _overwrite_values(result.configs)
        for setting in result.configs or ():
            for synonym in setting.synonyms or ():
                if setting.is_sensitive or SENSITIVE_NAME.search(synonym.name):
                    count += _overwrite(synonym, "value")
    return count


SECRETS_OF_REQUESTS: Final[Mapping[int, Blank]] = {
    _SASL_AUTHENTICATE: _bytes_of_sasl,
    _ALTER_SCRAM: _scram,
    _RENEW_TOKEN: _token,
    _EXPIRE_TOKEN: _token,
    _CREATE_TOPICS: _settings_of_topics,
    _ALTER_CONFIGS: _settings_of_resources,
    _INCREMENTAL_ALTER_CONFIGS: _settings_of_resources,
}
"""By API: what overwrites the secrets of its requests, and counts their bytes."""

SECRETS_OF_RESPONSES: Final[Mapping[int, Blank]] = {
    _SASL_AUTHENTICATE: _bytes_of_sasl,
    _CREATE_TOKEN: _token,
    _DESCRIBE_TOKENS: _tokens,
    _CREATE_TOPICS: _settings_of_topics,
    _DESCRIBE_CONFIGS: _described_settings,
}


def blank_request(frame: bytes) -> Treated:
    """Return a request of one of SECRETS_OF_REQUESTS without its secrets; its length included."""
    body = frame[LENGTH_BYTES:]
    start = LENGTH_BYTES
    try:
        header = request_header(body)
        start += header.start
        key, version = header.api_key, header.api_version
        parse, build = codec.request_parser(key, version), codec.request_builder(key, version)
        return _without(SECRETS_OF_REQUESTS[key], frame, start, parse, build)
    except (KeyError, *codec.PARSE_ERRORS):
        return blanked(frame, max(start, LENGTH_BYTES + REQUEST_HEAD_BYTES))


def blank_response(api_key: int, asked_version: int, frame: bytes) -> Treated:
    """Return a response of one of SECRETS_OF_RESPONSES without its secrets."""
    body = frame[LENGTH_BYTES:]
    try:
        start = LENGTH_BYTES + response_start(body, api_key, asked_version)
        version = response_version(body, api_key, asked_version)
        parse = codec.response_parser(api_key, version)
        build = codec.response_builder(api_key, version)
        return _without(SECRETS_OF_RESPONSES[api_key], frame, start, parse, build)
    except (KeyError, *codec.PARSE_ERRORS):
        return blanked(frame, LENGTH_BYTES + CORRELATION_BYTES)


def _without(
    blank: Blank, frame: bytes, start: int, parse: codec.Parser, build: codec.Builder
) -> Treated:
    """Return a frame whose message `blank` has been through, as long as before."""
    message, end = parse(frame, start, len(frame))
    count = blank(message)
    if not count and end == len(frame):
        return frame, None
    out: list[bytes | memoryview] = []
    build(message, out)
    built = b"".join(out)
    if end != len(frame) or len(built) != end - start or message.unknown_tags:
        # What is behind a message, or in fields of the future, may be as secret as what is in it.
        raise ProtocolViolation("not a message as it would be built here")
    return frame[:start] + built, PacketNote(blanked=count)
