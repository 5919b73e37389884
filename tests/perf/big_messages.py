"""The messages in large captures, each with its share of the traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafkalite.protocol import codec
from kafkalite.wire.headers import response_header_packer

_NAMES: Final = 6
"""The number of variants of each message that contains a group ID."""


@dataclass(frozen=True)
class Template:
    """An exchange: two frames with length prefixes; the correlation IDs are filled in later."""

    request: bytes
    response: bytes
    weight: int
    is_commit: bool = False
    group: int | None = None
    """Number of the group that it belongs to."""


def _request(key: int, version: int, body: Any) -> bytes:  # noqa: ANN401 - any message
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(body, out)
    name = b"consumer-of-billing-1"
    tags = b"\0" if codec.is_flexible(key, version) else b""
    header = key.to_bytes(2) + version.to_bytes(2) + bytes(4) + len(name).to_bytes(2) + name + tags
    frame = header + b"".join(out)
    return len(frame).to_bytes(4) + frame


def _response(key: int, version: int, body: Any) -> bytes:  # noqa: ANN401 - any message
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
    return Template(_request(68, 1, body), _response(68, 1, answer), 6, group=number)


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
    return Template(_request(8, 9, body), _response(8, 9, answer), 5, is_commit=True, group=number)


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
    return Template(_request(0, 12, body), _response(0, 12, answer), weight)


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
    return Template(_request(1, 12, body), _response(1, 12, answer), weight)


def _metadata() -> Template:
    request, response = codec.request_class(3), codec.response_class(3)
    topics = [request.MetadataRequestTopic(name="orders")]
    broker = response.MetadataResponseBroker(node_id=1, host="broker-1.kafka", port=9092)
    answer = response(brokers=[broker], cluster_id="zGmq3vYxSaSxYUkbHRtJ3w", controller_id=1)
    return Template(_request(3, 12, request(topics=topics)), _response(3, 12, answer), 3)


def weights(*, has_hot_group: bool) -> list[int]:
    """Return the share of each template; a hot group has 90 % of the requests of all groups."""
    if not has_hot_group:
        return [template.weight for template in TEMPLATES]
    other = (_SHARES - _HOT_SHARE) * _NAMES // (_NAMES - 1)
    of_group = {None: _SHARES, 0: _HOT_SHARE * _NAMES}
    return [template.weight * of_group.get(template.group, other) for template in TEMPLATES]


_SHARES, _HOT_SHARE = 50, 45

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
