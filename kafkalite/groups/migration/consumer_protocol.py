"""The consumer protocol embedded in JoinGroup and SyncGroup: subscriptions and assignments.

In a classic group only the leader parses these bytes. In a consumer group with classic members the
coordinator has the leader's role, so it parses and encodes them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.metadata.image import MetadataImage

_VERSION = struct.Struct(">h")
_HIGHEST = ConsumerProtocolSubscription.versions.highest
"""The highest known version of both messages; newer ones are parsed like this version."""

M = TypeVar("M", ConsumerProtocolSubscription, ConsumerProtocolAssignment)
_Topic = ConsumerProtocolAssignment.TopicPartition


class Subscription(NamedTuple):
    """A consumer's subscription."""

    topics: frozenset[str]
    owned: Mapping[str, frozenset[int]]
    """Topic → partitions that it still owns; consumers with eager rebalancing own none."""
    rack_id: str | None


class ConsumerAssignment(NamedTuple):
    """A consumer's assignment by its leader."""

    partitions: Mapping[str, frozenset[int]]
    has_user_data: bool
    """Whether the assignor added user data, which only that assignor can parse."""


def parse_version(data: bytes) -> int:
    """Return the version in the first bytes, at most the highest known one.

    Raises ValueError for missing or invalid versions.
    """
    try:
        (version,) = _VERSION.unpack_from(data)
    except struct.error as error:
        raise ValueError("no version") from error
    if version < 0:
        raise ValueError(f"version {version}")
    return min(int(version), _HIGHEST)


def parse_subscription(metadata: bytes) -> Subscription:
    """Parse a consumer's subscription; raises ValueError for other bytes."""
    value = _parse(ConsumerProtocolSubscription, metadata)
    owned: dict[str, frozenset[int]] = {}
    for each in value.owned_partitions:
        owned.setdefault(each.topic, frozenset(each.partitions))
    return Subscription(frozenset(value.topics), owned, value.rack_id or None)


def parse_assignment(assignment: bytes) -> ConsumerAssignment:
    """Parse a consumer's assignment; raises ValueError for other bytes."""
    value = _parse(ConsumerProtocolAssignment, assignment)
    partitions: dict[str, frozenset[int]] = {}
    for each in value.assigned_partitions:
        partitions.setdefault(each.topic, frozenset(each.partitions))
    return ConsumerAssignment(partitions, bool(value.user_data))


def encode_assignment(
    partitions: Mapping[bytes, Iterable[int]], image: MetadataImage, version: int
) -> bytes:
    """Encode an assignment by topic id for a consumer; deleted topics are omitted."""
    topics = image.topics_by_id
    by_name = {
        topics[topic_id].name: indexes
        for topic_id, indexes in partitions.items()
        if topic_id in topics
    }
    return encode_named_assignment(by_name, version)


def encode_named_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """Encode an assignment by the names of topics for a consumer."""
    rows = [
        _Topic(topic=name, partitions=sorted(indexes))
        for name, indexes in sorted(partitions.items())
    ]
    return codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=rows), version)


def encode_subscription(topics: Iterable[str], version: int) -> bytes:
    """Encode the subscription of a consumer with eager rebalancing."""
    return codec.encode_value(ConsumerProtocolSubscription(topics=sorted(topics)), version)


def by_topic_id(
    partitions: Mapping[str, frozenset[int]], image: MetadataImage
) -> dict[bytes, frozenset[int]]:
    """Return partitions by topic id; unknown topics and those without partitions are omitted."""
    topics = image.topics
    return {
        topics[name].topic_id: indexes
        for name, indexes in partitions.items()
        if indexes and name in topics
    }


def _parse(kind: type[M], data: bytes) -> M:
    parse = codec.parser(kind.CODEC, parse_version(data))
    try:
        value, _ = parse(data, _VERSION.size, len(data))
    except codec.PARSE_ERRORS as error:
        raise ValueError(f"not a {kind.CODEC}") from error
    assert isinstance(value, kind)
    return value
