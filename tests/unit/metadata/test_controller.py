"""The controller: decided, logged, replayed, shown and told, in that order and at once."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import MetadataDelta
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.metadata_world import MetadataWorld


def test_listeners_hear_of_a_start_as_one_change() -> None:
    first = MetadataWorld()
    first.controller.create_topics([NewTopic(name="t"), NewTopic(name="u")])
    again = first.restart(1)
    ((image, delta),) = again.changes
    assert [topic.name for topic in delta.created] == ["t", "u"]
    assert delta.brokers_changed
    assert image is again.image


def test_listeners_hear_of_each_change_once_it_is_true() -> None:
    world = MetadataWorld()
    seen: list[bool] = []
    world.controller.subscribe(lambda image, _: seen.append(world.image is image))
    world.controller.create_topics([NewTopic(name="t")])
    assert seen == [True]
    assert world.last_delta.created == (world.topic("t"),)


def test_a_coordinators_topic_is_made_once() -> None:
    world = MetadataWorld(offsets_topic_num_partitions="3")
    world.controller.have_internal_topic(OFFSETS_TOPIC)
    assert len(world.topic(OFFSETS_TOPIC).partitions) == 3
    version = world.image.version
    world.controller.have_internal_topic(OFFSETS_TOPIC)
    assert world.image.version == version


@pytest.mark.parametrize("is_full", [True, False])
def test_a_coordinators_topic_that_cannot_be_made_is_told(is_full: bool) -> None:  # noqa: FBT001
    world = MetadataWorld(offsets_topic_replication_factor="1" if is_full else "9")
    world.log.fails_with = OSError(28, "no room") if is_full else None
    with pytest.raises(KafkaError) as refused:
        world.controller.have_internal_topic(OFFSETS_TOPIC)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert OFFSETS_TOPIC not in world.image.topics


def test_an_old_image_stays_as_it_was() -> None:
    world = MetadataWorld()
    before = world.image
    world.controller.create_topics([NewTopic(name="t")])
    assert "t" not in before.topics
    assert world.image.version > before.version


def test_a_deletion_is_told_with_the_topic_that_is_gone() -> None:
    world = MetadataWorld()
    world.controller.create_topics([NewTopic(name="t", partitions=2)])
    topic = world.topic("t")
    assert world.controller.delete_topics([topic.topic_id]) == {topic.topic_id: None}
    assert world.last_delta == MetadataDelta(deleted=(topic,))


def test_a_change_that_cannot_be_logged_did_not_happen() -> None:
    world = MetadataWorld()
    changes = len(world.changes)
    world.log.fails_with = OSError(28, "no room")
    with pytest.raises(KafkaError) as refused:
        world.controller.create_topics([NewTopic(name="t")])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.value.message == "no room"
    assert (world.image.topics, len(world.changes)) == ({}, changes)
    world.controller.create_topics([NewTopic(name="t")])
    assert "t" in world.image.topics


def test_all_hear_of_a_change_though_one_of_them_meets_a_bad_disk() -> None:
    world = MetadataWorld()
    heard: list[str] = []

    def fail(*_: object) -> None:
        raise OSError(28, "no room")

    world.controller.subscribe(fail)
    world.controller.subscribe(lambda image, _: heard.extend(image.topics))
    with pytest.raises(KafkaError) as refused:
        world.controller.create_topics([NewTopic(name="t")])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert heard == ["t"]
    assert "t" in world.image.topics


def test_deciding_nothing_tells_nobody() -> None:
    world = MetadataWorld()
    changes = len(world.changes)
    world.controller.create_topics([NewTopic(name=".")])
    assert len(world.changes) == changes
