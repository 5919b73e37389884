"""GroupDirectory: what the components of one group shard share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Ticket

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import Group, GroupId
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.entropy import Entropy


class GroupDirectory:
    """The groups of one shard, by id, and the world as the shard was last told it is.

    `groups` is hard state: it changes in replay alone. `image` is the metadata that the runtime
    handed in last; `config` and `entropy` were given at construction.
    """

    __slots__ = ("_tickets", "config", "entropy", "groups", "image")

    def __init__(self, *, config: BrokerConfig, entropy: Entropy, image: MetadataImage) -> None:
        self.groups: dict[GroupId, Group] = {}
        self.config = config
        self.entropy = entropy
        self.image = image
        self._tickets = itertools.count(1)

    def next_ticket(self) -> Ticket:
        """Draw the name of an answer owed."""
        return Ticket(next(self._tickets))
