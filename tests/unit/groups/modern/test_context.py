"""GroupContext: changes of settings and topics."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import ConsumerSettingsCache
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.modern.context import GroupContext
from kafkalite.groups.share.group import ShareSoftState
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.seeded_entropy import SeededEntropy
from tests.unit.groups.consumer.stage import image_of, topic


def make(config: BrokerConfig) -> GroupContext[ConsumerSettingsCache]:
    directory = GroupDirectory(config=config, entropy=SeededEntropy(1), image=image_of({"t": 1}))
    return GroupContext(directory, ConsumerSettingsCache(config))


def test_topics_count_as_seen_until_they_or_the_brokers_change() -> None:
    context, soft = make(BrokerConfig.from_text({})), ShareSoftState()
    assert not context.is_metadata_hash_current(soft)
    t = (topic("t", 1),)
    for delta in (
        MetadataDelta(created=t),
        MetadataDelta(changed=t),
        MetadataDelta(deleted=t),
        MetadataDelta(brokers_changed=True),
    ):
        context.mark_metadata_hash_current(soft)
        assert context.is_metadata_hash_current(soft)
        context.on_image(MetadataDelta())
        assert context.is_metadata_hash_current(soft)
        context.on_image(delta)
        assert not context.is_metadata_hash_current(soft)


def test_settings_are_recomputed_when_configurations_change() -> None:
    config = BrokerConfig.from_text({})
    context, group = make(config), ConsumerGroup("g")
    before = context.settings.of(group)
    config.publish({"group.consumer.max.size": "7"}, {})
    assert context.settings.of(group) is before
    context.on_image(MetadataDelta(configs=(object(),)))  # type: ignore[arg-type]
    assert context.settings.of(group).max_size == 7
