"""ConsumerContext: changes of topics since the last comparison of a group."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.consumer.context import MAX_CHANGED_TOPICS, ConsumerContext
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.directory import GroupDirectory
from kafkalite.metadata.image import MetadataDelta
from kafkalite.testing.entropy import SeededEntropy
from tests.unit.groups.consumer.stage import image_of, topic


def context() -> ConsumerContext:
    config = BrokerConfig.from_text({})
    image = image_of({"t": 1}, version=7)
    directory = GroupDirectory(config=config, entropy=SeededEntropy(1), image=image)
    return ConsumerContext(directory)


def changed(*names: str) -> MetadataDelta:
    return MetadataDelta(changed=tuple(topic(name, 1) for name in names))


def test_topics_are_seen_until_they_change() -> None:
    seen, group = context(), ConsumerGroup("g")
    assert not seen.is_metadata_hash_current(group.soft)
    seen.mark_metadata_hash_current(group.soft)
    assert seen.is_metadata_hash_current(group.soft)
    seen.on_image(changed("t"))
    assert not seen.is_metadata_hash_current(group.soft)


def test_only_changed_subscribed_topics_are_returned() -> None:
    seen, group = context(), ConsumerGroup("g")
    seen.on_image(changed("old"))
    seen.mark_metadata_hash_current(group.soft)
    seen.on_image(changed("t", "u"))
    seen.on_image(changed("v"))
    assert seen.recently_changed_topics(group, {"old", "t", "v"}) == ["t", "v"]


def test_the_number_of_changed_topics_is_limited() -> None:
    seen, group = context(), ConsumerGroup("g")
    seen.mark_metadata_hash_current(group.soft)
    names = [f"t{number}" for number in range(MAX_CHANGED_TOPICS + 1)]
    seen.on_image(changed(*names))
    assert seen.recently_changed_topics(group, set(names)) == names[1:]


def test_expressions_are_resolved_again_since_the_version_of_a_new_topic() -> None:
    seen = context()
    assert seen.newest_topic_version == -1
    seen.invalidate_regexes()
    assert seen.newest_topic_version == 7
