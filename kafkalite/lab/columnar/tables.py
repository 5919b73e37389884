"""Arrow schemas of the tables of captures.

Times are microseconds in UTC, the highest resolution of Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding.schema import message_type

TIME: Final = pa.timestamp("us", tz="UTC")

FRAMES: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),  # of the packet it begins in
        pa.field("ts", TIME, nullable=False),  # when its last byte arrived
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),  # "host:port"
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),  # null if the capture does not contain it
        pa.field("direction", pa.int8(), nullable=False),  # 0 request, 1 response
        pa.field("api_key", pa.int16()),  # of a response: that of its request, if known
        pa.field("api_version", pa.int16()),
        pa.field("correlation_id", pa.int32(), nullable=False),
        pa.field("payload", pa.binary()),  # the frame without its length
    ]
)
"""One row per frame."""

ENVELOPE: Final = pa.schema(
    [
        pa.field("ts", TIME, nullable=False),  # when the request's last byte arrived
        pa.field("response_ts", TIME),  # of the response's last byte, not before ts; null without
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
        pa.field("offset", pa.int64(), nullable=False),  # of the request's first packet
    ]
)
"""Columns of every request, of any API: one row per request, with its response."""

PAIRS: Final = pa.schema(
    [
        *ENVELOPE,
        pa.field("request_start", pa.int32(), nullable=False),  # offset of the body
        pa.field("request", pa.binary()),  # the frame without its length; null if not requested
        pa.field("response_start", pa.int32()),
        pa.field("response", pa.binary()),
    ]
)
"""Requests with their responses, not decoded."""

UNPAIRED: Final = pa.schema(
    [
        *FRAMES,
        pa.field("client_id", pa.string()),  # of a request
        pa.field("start", pa.int32()),  # offset of a request's body in the payload
        pa.field("frame_number", pa.int64(), nullable=False),  # in this table
        pa.field("request_seq", pa.int64()),  # as in `capture.model.Frame`
    ]
)
"""Frames to be paired with frames of other files: the last requests, the first responses."""

FRAGMENTS: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),  # of the packet it begins in
        pa.field("ts", TIME, nullable=False),  # of the packet it begins in
        pa.field("end_ts", TIME, nullable=False),  # of the packet it ends in
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),
        pa.field("direction", pa.int8(), nullable=False),
        pa.field("is_before_first_frame", pa.bool_(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),  # TCP sequence number of the first byte
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("acknowledged", pa.int64()),  # by its packet; null if unknown
    ]
)
"""Incomplete frames of a file: bytes before its first frame or after its last one."""

CONNECTIONS: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("connection", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("broker", pa.string(), nullable=False),
        pa.field("node_id", pa.int32()),
        pa.field("opened_ns", pa.int64()),  # null if the file does not contain it
        pa.field("first_ns", pa.int64(), nullable=False),
        pa.field("last_ns", pa.int64(), nullable=False),
        pa.field("is_closed", pa.bool_(), nullable=False),
        pa.field("has_opening", pa.bool_(), nullable=False),  # whether the file has its opening
        pa.field("request_end", pa.int64()),  # TCP sequence number after the last request byte
        pa.field("response_end", pa.int64()),
    ]
)
"""One row per connection of a file."""

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
"""Problems of a capture; see `capture.model.Problem`."""


def requests(api_key: int) -> pa.Schema:
    """Return the schema of one API's requests: the envelope, then `request` and `response`."""
    typed = (
        pa.field("request", message_type(api_key, Direction.REQUEST)),
        pa.field("response", message_type(api_key, Direction.RESPONSE)),
    )
    return pa.schema([*ENVELOPE, *typed])
