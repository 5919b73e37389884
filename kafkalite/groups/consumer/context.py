"""ConsumerContext: the metadata and settings that all consumer groups of a shard use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.settings import ConsumerSettingsCache
from kafkalite.groups.modern.context import GroupContext

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.metadata.image import MetadataDelta

MAX_CHANGED_TOPICS = 100
"""The maximum number of changed topics that are stored for explanations."""


class ConsumerContext(GroupContext[ConsumerSettingsCache]):
    """The directory, the settings and the recently changed topics."""

    __slots__ = ("_changed", "min_regex_version")

    def __init__(self, directory: GroupDirectory) -> None:
        super().__init__(directory, ConsumerSettingsCache(directory.config))
        self.min_regex_version = -1
        """Regular expressions resolved at an earlier metadata version are resolved again."""
        self._changed: dict[str, int] = {}
        """Recently changed topic → `topics_version` of the change."""

    def invalidate_regexes(self) -> None:
        """Make groups resolve their regular expressions again."""
        self.min_regex_version = self.directory.image.version

    def on_image(self, changes: MetadataDelta) -> None:
        """Record which settings and topics changed; the next heartbeats react to it."""
        super().on_image(changes)
        if changes.created:
            self.invalidate_regexes()
        for topic in (*changes.created, *changes.deleted, *changes.changed):
            self._changed.pop(topic.name, None)
            self._changed[topic.name] = self.topics_version
        while len(self._changed) > MAX_CHANGED_TOPICS:
            del self._changed[next(iter(self._changed))]

    def recently_changed_topics(
        self, group: ConsumerGroup, subscribed: AbstractSet[str]
    ) -> list[str]:
        """Return the subscribed topics that changed since the metadata hash was last current."""
        compared_version = group.soft.topics_version
        return [
            name
            for name, version in self._changed.items()
            if version > compared_version and name in subscribed
        ]
