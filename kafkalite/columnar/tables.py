"""The tables that captures become: their columns, in order, as Arrow schemas.

Times are microseconds, UTC: the finest that Spark keeps.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.columnar.schema import message_type

TIME: Final = pa.timestamp("us", tz="UTC")

FRAMES: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),  # of the packet it begins in
        pa.field("ts", TIME, nullable=False),  # when its last byte came
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),  # "host:port"
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),  # where the capture says it
        pa.field("direction", pa.int8(), nullable=False),  # 0 request, 1 response
        pa.field("api_key", pa.int16()),  # of a response: its request's, where that is known
        pa.field("api_version", pa.int16()),
        pa.field("correlation_id", pa.int32(), nullable=False),
        pa.field("payload", pa.binary()),  # the frame without its length
    ]
)
"""One row a frame."""

ENVELOPE: Final = pa.schema(
    [
        pa.field("ts", TIME, nullable=False),  # when the request's last byte came
        pa.field("answered", TIME),  # when the response's did; null without a response
        pa.field("latency_us", pa.int64()),
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),
        pa.field("api_key", pa.int16(), nullable=False),
        pa.field("api_version", pa.int16(), nullable=False),
        pa.field("correlation_id", pa.int32(), nullable=False),
        pa.field("client_id", pa.string()),
        pa.field("request_bytes", pa.int32(), nullable=False),
        pa.field("response_bytes", pa.int32()),
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),  # of the packet the request begins in
    ]
)
"""What every request has, whatever its API: one row a request, with its response."""

PAIRS: Final = pa.schema(
    [
        *ENVELOPE,
        pa.field("request_start", pa.int32(), nullable=False),  # where in it the body begins
        pa.field("request", pa.binary()),  # the frame without its length; null if not asked for
        pa.field("response_start", pa.int32()),
        pa.field("response", pa.binary()),
    ]
)
"""Requests with their responses, not decoded yet."""

UNPAIRED: Final = pa.schema(
    [
        *FRAMES,
        pa.field("client_id", pa.string()),  # of a request
        pa.field("start", pa.int32()),  # where in the payload a request's body begins
        pa.field("place", pa.int64(), nullable=False),  # counts what one connection has of these
    ]
)
"""Frames whose other half may be in another file: requests at its end, responses at its start."""

FRAGMENTS: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),  # of the packet it begins in
        pa.field("ts", TIME, nullable=False),  # of the packet it begins in
        pa.field("until", TIME, nullable=False),  # of the packet it ends in
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),
        pa.field("direction", pa.int8(), nullable=False),
        pa.field("is_head", pa.bool_(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),  # TCP's number of its first byte
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""Bytes that are no whole frame in their file: before the first frame there, or behind the last."""

CONNECTIONS: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),
        pa.field("opened_ns", pa.int64()),  # null where the file does not say it
        pa.field("first_ns", pa.int64(), nullable=False),
        pa.field("last_ns", pa.int64(), nullable=False),
        pa.field("is_closed", pa.bool_(), nullable=False),
        pa.field("begins_here", pa.bool_(), nullable=False),  # whether it has its opening
        pa.field("request_end", pa.int64()),  # TCP's number of the byte behind its last
        pa.field("response_end", pa.int64()),
    ]
)
"""What one file says of a connection."""

PROBLEMS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("connection", pa.string()),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""What is wrong with a capture: see `capture.model.Problem`."""


def requests(api_key: int) -> pa.Schema:
    """Return the columns of one API's requests: the envelope, then `request` and `response`."""
    typed = (
        pa.field("request", message_type(api_key, Direction.REQUEST)),
        pa.field("response", message_type(api_key, Direction.RESPONSE)),
    )
    return pa.schema([*ENVELOPE, *typed])
