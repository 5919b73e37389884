"""What classic consumers tell each other through their group: subscriptions and assignments.

To a classic group these are bytes that its leader understands. A group that both kinds of members
share has its coordinator in the leader's place, which must therefore read and write them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalite.protocol import codec
from kafkalite.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkalite.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.metadata.image import MetadataImage

_VERSION = struct.Struct(">h")
_HIGHEST = ConsumerProtocolSubscription.versions.highest
"""Subscriptions and assignments share their versions; from a newer one what we know is read."""

M = TypeVar("M", ConsumerProtocolSubscription, ConsumerProtocolAssignment)
_Topic = ConsumerProtocolAssignment.TopicPartition


class Subscription(NamedTuple):
    """What a consumer says of itself when it joins."""

    topics: frozenset[str]
    owned: Mapping[str, frozenset[int]]
    """By topic, the partitions it kept from the generation before; an eager one keeps none."""
    rack_id: str | None


class Assigned(NamedTuple):
    """What a consumer was assigned by its leader."""

    partitions: Mapping[str, frozenset[int]]
    has_user_data: bool
    """Whether the assignor sent a word of its own along, which no other one understands."""


def version_of(data: bytes) -> int:
    """Return the version that the bytes begin with, at most the highest we know.

    ValueError when there is none, or one that never was.
    """
    try:
        (version,) = _VERSION.unpack_from(data)
    except struct.error as error:
        raise ValueError("no version") from error
    if version < 0:
        raise ValueError(f"version {version}")
    return min(int(version), _HIGHEST)


def subscription_of(metadata: bytes) -> Subscription:
    """Read a consumer's subscription; ValueError when the bytes are something else."""
    found = _read(ConsumerProtocolSubscription, metadata)
    owned: dict[str, frozenset[int]] = {}
    for row in found.owned_partitions:
        owned.setdefault(row.topic, frozenset(row.partitions))
    return Subscription(frozenset(found.topics), owned, found.rack_id or None)


def assigned_of(assignment: bytes) -> Assigned:
    """Read a consumer's assignment; ValueError when the bytes are something else."""
    found = _read(ConsumerProtocolAssignment, assignment)
    partitions: dict[str, frozenset[int]] = {}
    for row in found.assigned_partitions:
        partitions.setdefault(row.topic, frozenset(row.partitions))
    return Assigned(partitions, bool(found.user_data))


def assignment_bytes(
    partitions: Mapping[bytes, Iterable[int]], image: MetadataImage, version: int
) -> bytes:
    """Write an assignment, given by topic id, for a consumer; topics that are gone are left out."""
    topics = image.topics_by_id
    rows = [
        _Topic(topic=topics[topic_id].name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if topic_id in topics
    ]
    rows.sort(key=lambda row: row.topic)
    return codec.encode_value(ConsumerProtocolAssignment(assigned_partitions=rows), version)


def by_topic_id(
    partitions: Mapping[str, frozenset[int]], image: MetadataImage
) -> dict[bytes, frozenset[int]]:
    """Return partitions by the ids of their topics; topics unknown or without any are left out."""
    topics = image.topics
    return {
        topics[name].topic_id: indexes
        for name, indexes in partitions.items()
        if indexes and name in topics
    }


def _read(kind: type[M], data: bytes) -> M:
    parse = codec.parser(kind.CODEC, version_of(data))
    try:
        found, _ = parse(data, _VERSION.size, len(data))
    except codec.PARSE_ERRORS as error:
        raise ValueError(f"not a {kind.CODEC}") from error
    assert isinstance(found, kind)
    return found
