"""Changes: the entities that records changed since the last image."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.metadata.image import ConfigResource, TopicImage


class Changes:
    """Collects changes during replay; read and cleared when an image is made."""

    __slots__ = ("brokers_changed", "changed", "configs", "created", "deleted")

    def __init__(self) -> None:
        self.created: set[bytes] = set()
        self.changed: set[bytes] = set()
        self.deleted: list[TopicImage] = []
        self.configs: set[ConfigResource] = set()
        self.brokers_changed = False

    def clear(self) -> None:
        """Remove all changes, after an image was made."""
        self.created.clear()
        self.changed.clear()
        self.deleted.clear()
        self.configs.clear()
        self.brokers_changed = False
