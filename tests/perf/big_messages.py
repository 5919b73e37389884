"""The messages in large captures, each with its share of the traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalite.protocol import codec
from kafkalite.wire.headers import response_header_packer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    _Numbers = NDArray[np.int64]

_NAMES: Final = 6
"""The number of variants of each message that contains a group ID."""


@dataclass(frozen=True)
class Template:
    """An exchange: two frames with length prefixes; the correlation IDs are filled in later."""

    request: bytes
    response: bytes
    weight: int = 1
    is_commit: bool = False
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Field:
    """A place in the frames of a template with a value that differs between exchanges."""

    side: int
    """0 for the request, 1 for the response."""
    position: int
    dtype: str
    """NumPy's name of the format; for text, the number is written in decimal digits."""
    value: str


@dataclass(frozen=True)
class Traffic:
    """Which exchanges a capture has: on which connections, and in which order."""

    templates: Sequence[Template]
    """The first one can be the first message of a file on any connection."""
    connections: _Numbers
    """The connections of successive exchanges; the last one is followed by the first."""
    choose: Callable[[_Numbers, _Numbers], _Numbers]
    """(connection, number of the exchange on it) → index of the template."""
    values: Callable[[_Numbers, _Numbers, _Numbers], Mapping[str, _Numbers]] = lambda *_: {}
    """(connection, number of the exchange on it, number of the exchange) → values of fields."""


def heartbeats_and_commits(connections: int) -> Traffic:
    """Return traffic whose messages are nearly all equal; a third of them are commits."""
    order = np.repeat(np.arange(len(TEMPLATES)), [template.weight for template in TEMPLATES])
    return Traffic(
        TEMPLATES,
        np.arange(connections),
        lambda connection, number: order[(number + connection * _STRIDE) % len(order)],
    )


_STRIDE: Final = 7919
"""A prime that distributes the message types; the order is the same in every run."""


def request_frame(key: int, version: int, body: Any) -> bytes:  # noqa: ANN401 - any message
    """Return a request with its length prefix."""
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(body, out)
    name = b"consumer-of-billing-1"
    tags = b"\0" if codec.is_flexible(key, version) else b""
    header = key.to_bytes(2) + version.to_bytes(2) + bytes(4) + len(name).to_bytes(2) + name + tags
    frame = header + b"".join(out)
    return len(frame).to_bytes(4) + frame


def response_frame(key: int, version: int, body: Any) -> bytes:  # noqa: ANN401 - any message
    """Return a response with its length prefix."""
    out: list[bytes | memoryview] = []
    codec.response_builder(key, version)(body, out)
    frame = b"".join(out)
    write_header = response_header_packer(key, is_flexible=codec.is_flexible(key, version))
    return write_header(len(frame), 0) + frame


def _heartbeat(number: int) -> Template:
    request, response = codec.request_class(68), codec.response_class(68)
    body = request(
        group_id=f"group-{number}", member_id=f"8a5f7d6e-0000-4000-8000-12345678900{number}",
        member_epoch=7, rebalance_timeout_ms=-1,
    )  # fmt: skip
    answer = response(member_id=body.member_id, member_epoch=7, heartbeat_interval_ms=5000)
    return Template(request_frame(68, 1, body), response_frame(68, 1, answer), 6)


def _commit(number: int) -> Template:
    request, response = codec.request_class(8), codec.response_class(8)
    partitions = [
        request.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1000 * number + index
        )
        for index in range(1 + number % 4)
    ]
    answers = [
        response.OffsetCommitResponsePartition(partition_index=index)
        for index in range(1 + number % 4)
    ]
    body = request(
        group_id=f"group-{number}", generation_id_or_member_epoch=7,
        member_id=f"8a5f7d6e-0000-4000-8000-12345678900{number}",
        topics=[request.OffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )  # fmt: skip
    answer = response(
        topics=[response.OffsetCommitResponseTopic(name="orders", partitions=answers)]
    )
    return Template(request_frame(8, 9, body), response_frame(8, 9, answer), 5, is_commit=True)


def _produce(size: int, weight: int) -> Template:
    request, response = codec.request_class(0), codec.response_class(0)
    data = request.TopicProduceData(
        name="orders",
        partition_data=[request.PartitionProduceData(index=0, records=bytes(size))],
    )
    body = request(acks=-1, timeout_ms=30_000, topic_data=[data])
    answer = response(
        responses=[
            response.TopicProduceResponse(
                name="orders",
                partition_responses=[response.PartitionProduceResponse(index=0, base_offset=5)],
            )
        ]
    )
    return Template(request_frame(0, 12, body), response_frame(0, 12, answer), weight)


def _fetch(size: int, weight: int) -> Template:
    request, response = codec.request_class(1), codec.response_class(1)
    body = request(max_wait_ms=500, min_bytes=1, session_id=9, session_epoch=3)
    topic = response.FetchableTopicResponse(
        topic="orders",
        partitions=[
            response.PartitionData(partition_index=0, high_watermark=9, records=bytes(size))
        ],
    )
    answer = response(session_id=9, responses=[topic] if size else [])
    return Template(request_frame(1, 12, body), response_frame(1, 12, answer), weight)


def _metadata() -> Template:
    request, response = codec.request_class(3), codec.response_class(3)
    topics = [request.MetadataRequestTopic(name="orders")]
    broker = response.MetadataResponseBroker(node_id=1, host="broker-1.kafka", port=9092)
    answer = response(brokers=[broker], cluster_id="zGmq3vYxSaSxYUkbHRtJ3w", controller_id=1)
    return Template(request_frame(3, 12, request(topics=topics)), response_frame(3, 12, answer), 3)


TEMPLATES: Final = (
    *(_heartbeat(number) for number in range(_NAMES)),
    *(_commit(number) for number in range(_NAMES)),
    _produce(80, 12),
    _produce(600, 4),
    _fetch(0, 10),
    _fetch(900, 3),
    _metadata(),
)
"""All templates; about a third of the exchanges are commits."""
