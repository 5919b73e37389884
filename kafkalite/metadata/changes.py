"""Changes: the topics, brokers and settings that records changed since the last image."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.metadata.image import ConfigResource, TopicImage


class Changes:
    """Collects changes during replay; they are read and cleared when an image is made."""

    __slots__ = (
        "brokers_changed",
        "changed_resources",
        "changed_topic_ids",
        "created_topic_ids",
        "deleted_topics",
    )

    def __init__(self) -> None:
        self.created_topic_ids: set[bytes] = set()
        self.changed_topic_ids: set[bytes] = set()
        self.deleted_topics: list[TopicImage] = []
        self.changed_resources: set[ConfigResource] = set()
        self.brokers_changed = False

    def clear(self) -> None:
        """Remove all changes, after an image was made."""
        self.created_topic_ids.clear()
        self.changed_topic_ids.clear()
        self.deleted_topics.clear()
        self.changed_resources.clear()
        self.brokers_changed = False
