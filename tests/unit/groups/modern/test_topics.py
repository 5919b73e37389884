"""The metadata hash changes only with metadata that an assignor uses."""

from __future__ import annotations

from kafkalite.groups.modern.topics import (
    NO_TOPICS_HASH,
    MetadataHashes,
    metadata_hash,
    topic_ids,
)
from kafkalite.metadata.image import BrokerImage
from tests.scenarios.group_coordinator import NODE, image_of, topic_image


def test_only_existing_topics_have_ids() -> None:
    image = image_of(topic_image("a"), topic_image("b"))
    assert topic_ids(["a", "missing"], image) == {image.topics["a"].topic_id}


def test_without_topics_the_hash_is_zero() -> None:
    assert metadata_hash(["missing"], image_of(topic_image("a"))) == NO_TOPICS_HASH == 0


def test_the_hash_is_independent_of_order_and_other_topics() -> None:
    before = metadata_hash(["a", "b"], image_of(topic_image("a"), topic_image("b")))
    after = metadata_hash(
        ["b", "missing", "a"], image_of(topic_image("c"), topic_image("b"), topic_image("a"))
    )
    assert before == after


def test_the_hash_changes_with_ids_partitions_racks_and_topics() -> None:
    image = image_of(topic_image("a", 2))
    racked = image._replace(brokers={NODE: BrokerImage(node_id=NODE, broker_epoch=1, rack="left")})
    hashes = {
        metadata_hash(["a"], image),
        metadata_hash(["a"], image_of(topic_image("a", 3))),
        metadata_hash(["a"], image_of(topic_image("a", 2, topic_id=bytes(16)))),
        metadata_hash(["a"], racked),
        metadata_hash(["a", "b"], image_of(topic_image("a", 2), topic_image("b", 2))),
    }
    assert len(hashes) == 5
    assert all(-(1 << 63) <= each < 1 << 63 for each in hashes)


def test_a_cached_hash_changes_with_the_metadata() -> None:
    """One cache is used for successive metadata images."""
    image = image_of(topic_image("a", 2), topic_image("b"))
    racked = image._replace(brokers={NODE: BrokerImage(node_id=NODE, broker_epoch=1, rack="left")})
    hashes = MetadataHashes()
    images = [
        image,
        image,
        image_of(topic_image("a", 3), topic_image("b")),
        image_of(topic_image("b")),
        racked,
        image_of(topic_image("a", 2, topic_id=bytes(16))),
        image_of(),
    ]
    for each in images:
        for names in (["a"], ["b", "a", "missing"], []):
            assert hashes.of(names, each) == metadata_hash(names, each)
