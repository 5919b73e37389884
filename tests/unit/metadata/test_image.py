"""Queries of a metadata image."""

from __future__ import annotations

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import MetadataImage, ResourceType
from tests.cluster.metadata import MetadataCluster


def test_partitions_are_found_by_topic_and_index() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t", partitions=2)])
    found = cluster.image.partition("t", 1)
    assert found is not None
    assert found.index == 1
    for topic, index in (("t", 2), ("t", -1), ("nope", 0)):
        assert cluster.image.partition(topic, index) is None


def test_empty_image_has_no_entities() -> None:
    image = MetadataImage()
    assert image.controller_id == -1
    assert image.topic_config("t") == image.group_config("g") == {}
    assert image.config_of(ResourceType.BROKER, "") == {}
