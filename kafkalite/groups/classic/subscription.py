"""Which topics a member of a classic `consumer` group says it reads."""

from __future__ import annotations

import struct

_VERSION_AND_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of an embedded consumer subscription, whatever its version.

    Every version begins with the version and an array of topic names. ValueError when these bytes
    are something else.
    """
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        position = _VERSION_AND_COUNT.size
        topics = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                raise ValueError("a topic name is cut short")
            topics.add(metadata[position : position + length].decode())
            position += length
    except struct.error as error:
        raise ValueError("not an embedded consumer subscription") from error
    if version < 0 or count < 0:
        raise ValueError("not an embedded consumer subscription")
    return frozenset(topics)
