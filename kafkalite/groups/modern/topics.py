"""Ids of subscribed topics, and a hash of their metadata."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.metadata.image import MetadataImage, TopicImage

P = TypeVar("P")

NO_TOPICS_HASH = 0


def partitions_by_topic(
    make: Callable[..., P], partitions: Mapping[bytes, Iterable[int]]
) -> list[P]:
    """Return the sorted topics of a message or record; `make` creates one of them."""
    return [
        make(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
    ]


def topic_ids(names: Iterable[str], image: MetadataImage) -> frozenset[bytes]:
    """Return the ids of those topics that exist."""
    topics = image.topics
    return frozenset(topics[name].topic_id for name in names if name in topics)


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """Return a signed 64-bit hash of all topic metadata that an assignor may use (KIP-1101).

    The hash is BLAKE2b; Kafka uses XXH3. A hash is only compared with the group's earlier one. So a
    coordinator that reads a log of the other implementation rebalances the group once.
    """
    return _combine_digests(
        [_topic_digest(image.topics[name], image) for name in _existing_names(names, image)]
    )


class MetadataHashes:
    """A cache for `metadata_hash`.

    The digest of a topic is valid until the topic or the brokers change. Computing it takes
    milliseconds for a topic with thousands of partitions.
    """

    __slots__ = ("_brokers", "_digests")

    def __init__(self) -> None:
        self._brokers: object = None
        self._digests: dict[str, tuple[TopicImage, bytes]] = {}

    def of(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return `metadata_hash(names, image)`."""
        if image.brokers is not self._brokers or len(self._digests) > len(image.topics):
            self._brokers = image.brokers
            self._digests.clear()
        return _combine_digests(
            [self._digest(name, image) for name in _existing_names(names, image)]
        )

    def _digest(self, name: str, image: MetadataImage) -> bytes:
        topic = image.topics[name]
        cached = self._digests.get(name)
        if cached is None or cached[0] is not topic:
            cached = self._digests[name] = (topic, _topic_digest(topic, image))
        return cached[1]


def _existing_names(names: Iterable[str], image: MetadataImage) -> list[str]:
    return sorted(name for name in names if name in image.topics)


def _combine_digests(digests: Sequence[bytes]) -> int:
    if not digests:
        return NO_TOPICS_HASH
    digest = blake2b(b"".join(digests), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _topic_digest(topic: TopicImage, image: MetadataImage) -> bytes:
    racks = [
        sorted(
            broker.rack
            for node_id in partition.replicas
            if (broker := image.brokers.get(node_id)) is not None and broker.rack is not None
        )
        for partition in topic.partitions
    ]
    # repr quotes and escapes, so different racks and topic names never give the same bytes.
    return blake2b(repr((topic.topic_id, topic.name, racks)).encode(), digest_size=8).digest()
