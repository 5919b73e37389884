"""What groups have seen of the world, and which topics changed since."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import SettingsBook
from kafkalite.groups.consumer.surroundings import MOST_REMEMBERED, Surroundings
from kafkalite.groups.directory import GroupDirectory
from kafkalite.testing.entropy import SeededEntropy
from tests.unit.groups.consumer.stage import image_of


def surroundings() -> Surroundings:
    config = BrokerConfig.from_text({})
    image = image_of({"t": 1}, version=7)
    directory = GroupDirectory(config=config, entropy=SeededEntropy(1), image=image)
    return Surroundings(directory, SettingsBook(config))


def test_a_group_sees_topics_until_they_change() -> None:
    around, group = surroundings(), ConsumerGroup("g")
    assert not around.has_seen_topics(group)
    around.saw_topics(group)
    assert around.has_seen_topics(group)
    around.topics_changed(["t"])
    assert not around.has_seen_topics(group)


def test_what_changed_since_is_named_of_what_is_subscribed_to() -> None:
    around, group = surroundings(), ConsumerGroup("g")
    around.topics_changed(["old"])
    around.saw_topics(group)
    around.topics_changed(["t", "u"])
    around.topics_changed(["v"])
    assert around.changed_since_seen(group, {"old", "t", "v"}) == ["t", "v"]


def test_only_so_many_names_are_remembered() -> None:
    around, group = surroundings(), ConsumerGroup("g")
    around.saw_topics(group)
    names = [f"t{number}" for number in range(MOST_REMEMBERED + 1)]
    around.topics_changed(names)
    assert around.changed_since_seen(group, set(names)) == names[1:]


def test_expressions_are_resolved_anew_from_the_version_a_topic_came_with() -> None:
    around = surroundings()
    assert around.newest_topic_version == -1
    around.topics_created()
    assert around.newest_topic_version == 7
