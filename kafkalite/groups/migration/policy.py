"""MigrationPolicy: which ways groups with members may go between the two protocols."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig


class MigrationPolicy(Enum):
    """The values of `group.consumer.migration.policy`.

    Groups without members change their protocol whatever the policy is.
    """

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes a consumer group when somebody joins it as one."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes classic when only classic members are left."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def admits_classic_members(self) -> bool:
        """Whether a consumer group takes members of the classic protocol in at all."""
        return self is not MigrationPolicy.DISABLED


def migration_policy(config: BrokerConfig) -> MigrationPolicy:
    """Return the policy in force."""
    return MigrationPolicy(config.str("group.consumer.migration.policy").lower())
