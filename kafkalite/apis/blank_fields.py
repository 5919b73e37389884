"""Kafka's rule for blank fields of requests, which is that of Java's `trim`."""

from __future__ import annotations

from typing import Final

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

_TRIMMED: Final = "".join(map(chr, range(ord(" ") + 1)))
"""Python's `strip` removes all spaces of Unicode, but only some control characters."""


def trim(text: str) -> str:
    """Return a text without the characters up to U+0020 at both ends, as Java's `trim` does."""
    return text.strip(_TRIMMED)


def check_not_blank(field: str, value: str | None) -> None:
    """Raise KafkaError INVALID_REQUEST if a field is set and blank."""
    if value is not None and not trim(value):
        raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorText.FIELD_IS_EMPTY.format(field=field))
