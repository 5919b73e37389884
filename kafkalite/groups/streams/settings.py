"""What a streams group is configured with: its own settings, kept within the broker's bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.settings import GroupSettingsBook
from kafkalite.groups.streams.target import STANDBY_REPLICAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


class GroupSettings(NamedTuple):
    """What one group is to go by."""

    session_timeout_ms: int
    """How long a member may be silent."""
    heartbeat_interval_ms: int
    """How often a member shall heartbeat."""
    assignment_interval_ms: int
    """The least time between two target assignments (KIP-1263)."""
    initial_delay_ms: int
    """How long a group that was empty waits for more members before its first assignment."""
    max_size: int
    """The most members the group may have."""
    assignment_configs: Mapping[str, str]
    """What the assignor is told, as the group's record keeps it."""


class SettingsBook(GroupSettingsBook[GroupSettings]):
    """The settings of every streams group of one shard."""

    __slots__ = ()

    def work_out(self, config: BrokerConfig, group_id: GroupId) -> GroupSettings:
        """Return what a group is to go by."""
        standby_replicas = config.group_int(group_id, "streams.num.standby.replicas")
        return GroupSettings(
            session_timeout_ms=config.group_int(group_id, "streams.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "streams.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "streams.assignment.interval.ms"),
            initial_delay_ms=config.group_int(group_id, "streams.initial.rebalance.delay.ms"),
            max_size=config.int("group.streams.max.size"),
            assignment_configs={STANDBY_REPLICAS: str(standby_replicas)},
        )
