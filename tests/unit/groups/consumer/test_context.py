"""ConsumerContext: changes of topics since the last comparison of a group."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.consumer.context import MAX_CHANGED_TOPICS, ConsumerContext
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.directory import GroupDirectory
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.seeded_entropy import SeededEntropy
from tests.unit.groups.consumer.stage import image_of, topic


def context() -> ConsumerContext:
    config = BrokerConfig.from_text({})
    image = image_of({"t": 1}, version=7)
    directory = GroupDirectory(config=config, entropy=SeededEntropy(1), image=image)
    return ConsumerContext(directory)


def changed(*names: str) -> MetadataDelta:
    return MetadataDelta(changed=tuple(topic(name, 1) for name in names))


def test_metadata_hash_is_current_until_topics_change() -> None:
    consumer_context, group = context(), ConsumerGroup("g")
    assert not consumer_context.is_metadata_hash_current(group.soft)
    consumer_context.mark_metadata_hash_current(group.soft)
    assert consumer_context.is_metadata_hash_current(group.soft)
    consumer_context.on_image(changed("t"))
    assert not consumer_context.is_metadata_hash_current(group.soft)


def test_only_changed_subscribed_topics_are_returned() -> None:
    consumer_context, group = context(), ConsumerGroup("g")
    consumer_context.on_image(changed("old"))
    consumer_context.mark_metadata_hash_current(group.soft)
    consumer_context.on_image(changed("t", "u"))
    consumer_context.on_image(changed("v"))
    assert consumer_context.recently_changed_topics(group, {"old", "t", "v"}) == ["t", "v"]


def test_the_number_of_changed_topics_is_limited() -> None:
    consumer_context, group = context(), ConsumerGroup("g")
    consumer_context.mark_metadata_hash_current(group.soft)
    names = [f"t{number}" for number in range(MAX_CHANGED_TOPICS + 1)]
    consumer_context.on_image(changed(*names))
    assert consumer_context.recently_changed_topics(group, set(names)) == names[1:]


def test_expressions_are_resolved_again_since_the_version_of_a_new_topic() -> None:
    consumer_context = context()
    assert consumer_context.min_regex_version == -1
    consumer_context.invalidate_regexes()
    assert consumer_context.min_regex_version == 7
