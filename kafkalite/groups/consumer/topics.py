"""What the topics of a subscription are: their ids, and a hash that moves when they do."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.metadata.image import MetadataImage, TopicImage

NO_TOPICS_HASH = 0


def topic_ids(names: Iterable[str], image: MetadataImage) -> frozenset[bytes]:
    """Return the ids of those topics that exist."""
    topics = image.topics
    return frozenset(topics[name].topic_id for name in names if name in topics)


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """Return a signed 64-bit hash of all that an assignor may look at in these topics (KIP-1101).

    BLAKE2b, where Kafka takes XXH3: the number is compared with earlier ones of its own kind
    alone, and a coordinator that finds another's merely rebalances once.
    """
    existing = sorted(name for name in names if name in image.topics)
    if not existing:
        return NO_TOPICS_HASH
    digest = blake2b(digest_size=8)
    for name in existing:
        digest.update(_topic_digest(image.topics[name], image))
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
    # repr quotes and escapes, so no choice of rack or topic names can look like another.
    return blake2b(repr((topic.topic_id, topic.name, racks)).encode(), digest_size=8).digest()
