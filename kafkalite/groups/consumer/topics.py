"""What the topics of a subscription are: their ids, and a hash that moves when they do."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    return _joined([_topic_digest(image.topics[name], image) for name in _existing(names, image)])


class MetadataHashes:
    """`metadata_hash` for one who asks for the same topics over and over, as groups do.

    What was worked out for a topic holds for as long as it is the same topic and brokers are the
    same; a topic of thousands of partitions takes milliseconds.
    """

    __slots__ = ("_brokers", "_digests")

    def __init__(self) -> None:
        self._brokers: object = None
        self._digests: dict[str, tuple[TopicImage, bytes]] = {}

    def of(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return what `metadata_hash` does."""
        if image.brokers is not self._brokers or len(self._digests) > len(image.topics):
            self._brokers = image.brokers
            self._digests.clear()
        return _joined([self._digest(name, image) for name in _existing(names, image)])

    def _digest(self, name: str, image: MetadataImage) -> bytes:
        topic = image.topics[name]
        known = self._digests.get(name)
        if known is None or known[0] is not topic:
            known = self._digests[name] = (topic, _topic_digest(topic, image))
        return known[1]


def _existing(names: Iterable[str], image: MetadataImage) -> list[str]:
    return sorted(name for name in names if name in image.topics)


def _joined(digests: Sequence[bytes]) -> int:
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
    # repr quotes and escapes, so no choice of rack or topic names can look like another.
    return blake2b(repr((topic.topic_id, topic.name, racks)).encode(), digest_size=8).digest()
