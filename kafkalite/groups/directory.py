"""GroupDirectory: what the components of one group shard share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Ticket
from kafkalite.groups.consumer.hand_overs import HandOverBook
from kafkalite.groups.consumer.topics import MetadataHashes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.group import Group, GroupId
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.entropy import Entropy


class GroupDirectory:
    """The groups of one shard, by id, and the world as the shard was last told it is.

    `groups` is hard state: it changes in replay alone. `image` is the metadata that the runtime
    handed in last; `config` and `entropy` were given at construction.
    """

    __slots__ = (
        "_hashes",
        "_tickets",
        "begun",
        "config",
        "entropy",
        "groups",
        "hand_overs",
        "image",
    )

    def __init__(self, *, config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> None:
        self.groups: dict[GroupId, Group] = {}
        self.begun: dict[GroupId, ClassicGroup] = {}
        """Soft: classic groups a decision began, whose first record is about to be replayed."""
        self.hand_overs = HandOverBook()
        """Soft: what refusals explain themselves with."""
        self.config = config
        self.entropy = entropy
        self.image = image
        self._hashes = MetadataHashes()
        self._tickets = itertools.count(1)

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Return the hash of what an assignor may look at in these topics as they are now."""
        return self._hashes.of(names, self.image)

    def next_ticket(self) -> Ticket:
        """Draw the name of an answer owed."""
        return Ticket(next(self._tickets))
