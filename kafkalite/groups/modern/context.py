"""GroupContext: the metadata and settings that all groups of one type in a shard use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.modern.group import ModernSoftState
    from kafkalite.groups.modern.settings import GroupSettingsCache
    from kafkalite.metadata.image import MetadataDelta

B = TypeVar("B", bound="GroupSettingsCache[Any]")


class GroupContext(Generic[B]):
    """The directory, the settings and the version of the topics, for the groups of one shard."""

    __slots__ = ("directory", "settings", "topics_version")

    def __init__(self, directory: GroupDirectory, settings: B) -> None:
        self.directory = directory
        self.settings = settings
        self.topics_version = 0
        """The number of changes of topics or brokers since the shard was loaded."""

    def on_image(self, changes: MetadataDelta) -> None:
        """Record that settings or topics changed; the next heartbeats react to it."""
        if changes.configs:
            self.settings.invalidate()
        if changes.created or changes.deleted or changes.changed or changes.brokers_changed:
            self.topics_version += 1

    def is_metadata_hash_current(self, soft: ModernSoftState[Any]) -> bool:
        """Whether the group's metadata hash was compared since the last topic change."""
        return soft.topics_version == self.topics_version

    def mark_metadata_hash_current(self, soft: ModernSoftState[Any]) -> None:
        """Record that the group's metadata hash was compared and has not changed."""
        soft.topics_version = self.topics_version
