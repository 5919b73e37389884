"""Which topics a member of a classic `consumer` group says it reads."""

from __future__ import annotations

import struct
from functools import lru_cache

from kafkalite.protocol import codec

_VERSION = struct.Struct(">h")


_REMEMBERED, _REMEMBERED_BYTES = 1_024, 8_192
"""How many subscriptions are remembered, and how long ones: members may send megabytes."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of an embedded consumer subscription, whatever its version.

    All versions begin as the oldest does, so what a newer one adds is left unread, and the number
    itself may be any. ValueError when these bytes are something else. Members say the same over
    and over, and in many groups, so what is not very long is read once.
    """
    return (_remembered if len(metadata) <= _REMEMBERED_BYTES else _read)(metadata)


def _read(metadata: bytes) -> frozenset[str]:
    parse = codec.parser("consumer_protocol_subscription", 0)
    try:
        _VERSION.unpack_from(metadata)
        subscription, _ = parse(metadata, _VERSION.size, len(metadata))
    except codec.PARSE_ERRORS as error:
        raise ValueError("not an embedded consumer subscription") from error
    return frozenset(subscription.topics)


_remembered = lru_cache(_REMEMBERED)(_read)
