"""GroupDirectory: the groups of one shard, and the metadata and settings that all share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Ticket
from kafkalite.groups.modern.ownership import OwnershipHistory
from kafkalite.groups.modern.topics import MetadataHashes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.rules import Rules
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.group import Group, GroupId
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.entropy import Entropy

_MAX_RESET_GROUPS: Final = 10_000


class GroupDirectory:
    """The groups of one shard by id, with the latest metadata image.

    `groups` is hard state: only replay changes it. `image` is the latest metadata image from the
    runtime.
    """

    __slots__ = (
        "_hashes",
        "_tickets",
        "config",
        "entropy",
        "groups",
        "image",
        "ownership",
        "reset_groups",
        "unreplayed_groups",
    )

    def __init__(self, *, config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> None:
        self.groups: dict[GroupId, Group] = {}
        self.unreplayed_groups: dict[GroupId, ClassicGroup] = {}
        """Soft state: classic groups created by a decision whose record is not replayed yet."""
        self.ownership = OwnershipHistory()
        """Soft state: past owners of partitions, for explanations of refusals."""
        self.reset_groups: dict[GroupId, None] = {}
        """Soft state: the latest groups that were reset while they had members."""
        self.config = config
        self.entropy = entropy
        self.image = image
        self._hashes = MetadataHashes()
        self._tickets = itertools.count(1)

    @property
    def rules(self) -> Rules:
        """The rules of the emulated release."""
        return self.config.release.rules

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Return the hash of these topics' current metadata, as far as assignors use it."""
        return self._hashes.of(names, self.image)

    def record_reset(self, group_id: GroupId) -> None:
        """Record that members of a group were removed because the broker is reset."""
        self.reset_groups[group_id] = None
        if len(self.reset_groups) > _MAX_RESET_GROUPS:
            del self.reset_groups[next(iter(self.reset_groups))]

    def next_ticket(self) -> Ticket:
        """Return a new ticket for a response that is sent later."""
        return Ticket(next(self._tickets))
