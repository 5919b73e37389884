"""Which topics a member of a classic `consumer` group says it reads."""

from __future__ import annotations

import struct

from kafkalite.protocol import codec

_VERSION = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of an embedded consumer subscription, whatever its version.

    All versions begin as the oldest does, so what a newer one adds is left unread. ValueError when
    these bytes are something else.
    """
    parse = codec.parser("consumer_protocol_subscription", 0)
    try:
        (version,) = _VERSION.unpack_from(metadata)
        subscription, _ = parse(metadata, _VERSION.size, len(metadata))
    except codec.PARSE_ERRORS as error:
        raise ValueError("not an embedded consumer subscription") from error
    if version < 0:
        raise ValueError(f"a consumer subscription of version {version}")
    return frozenset(subscription.topics)
