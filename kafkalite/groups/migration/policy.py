"""MigrationPolicy: the changes of protocol that groups with members may make."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig


class MigrationPolicy(Enum):
    """The values of `group.consumer.migration.policy`.

    Groups without members can change their protocol under every policy.
    """

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes a consumer group when a consumer member joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes classic when only classic members remain."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def admits_classic_members(self) -> bool:
        """Whether classic members may join a consumer group."""
        return self is not MigrationPolicy.DISABLED


def migration_policy(config: BrokerConfig) -> MigrationPolicy:
    """Return the configured policy."""
    return MigrationPolicy(config.str("group.consumer.migration.policy").lower())
