"""Surroundings: what consumer groups look at besides themselves, and whether they have lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.settings import SettingsBook
    from kafkalite.groups.directory import GroupDirectory

MOST_REMEMBERED = 100
"""Topics of which it is remembered that they changed."""


class Surroundings:
    """The world of one shard's groups; topics and settings come in turns."""

    __slots__ = ("_changed", "_topics_turn", "directory", "newest_topic_version", "settings")

    def __init__(self, directory: GroupDirectory, settings: SettingsBook) -> None:
        self.directory = directory
        self.settings = settings
        self.newest_topic_version = -1
        """The metadata version at which a topic was last created."""
        self._topics_turn = 0
        self._changed: dict[str, int] = {}
        """Topics that changed lately, each with the turn at which it did; for explanations."""

    def topics_created(self) -> None:
        """Let groups resolve their expressions again."""
        self.newest_topic_version = self.directory.image.version

    def topics_changed(self, names: Iterable[str] = ()) -> None:
        """Let every group compare its metadata hash; `names` are of the topics that changed."""
        self._topics_turn += 1
        for name in names:
            self._changed.pop(name, None)
            self._changed[name] = self._topics_turn
        while len(self._changed) > MOST_REMEMBERED:
            del self._changed[next(iter(self._changed))]

    def changed_since_seen(self, group: ConsumerGroup, subscribed: AbstractSet[str]) -> list[str]:
        """Return, of these topics, those that changed since a group last found all as it knew."""
        turn = group.soft.topics_turn
        return [name for name, at in self._changed.items() if at > turn and name in subscribed]

    def has_seen_topics(self, group: ConsumerGroup) -> bool:
        """Whether a group has compared its hash since topics last changed."""
        return group.soft.topics_turn == self._topics_turn

    def saw_topics(self, group: ConsumerGroup) -> None:
        """Note that a group has compared its hash and found it right."""
        group.soft.topics_turn = self._topics_turn
