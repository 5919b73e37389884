"""Changes: what replayed records touched since the last image was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.metadata.image import ConfigResource, TopicImage


class Changes:
    """Notes taken by replayers, read and cleared when an image is made."""

    __slots__ = ("brokers", "configs", "created", "deleted", "touched")

    def __init__(self) -> None:
        self.created: set[bytes] = set()
        self.touched: set[bytes] = set()
        self.deleted: list[TopicImage] = []
        self.configs: set[ConfigResource] = set()
        self.brokers = False

    def clear(self) -> None:
        """Start afresh, an image having been made."""
        self.created.clear()
        self.touched.clear()
        self.deleted.clear()
        self.configs.clear()
        self.brokers = False
