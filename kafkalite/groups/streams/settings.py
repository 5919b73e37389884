"""Settings of streams groups: group configuration within the broker's bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.modern.settings import GroupSettingsCache
from kafkalite.groups.streams.target import STANDBY_REPLICAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


class StreamsSettings(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    """The maximum time between two heartbeats of a member."""
    heartbeat_interval_ms: int
    """The heartbeat interval of members."""
    assignment_interval_ms: int
    """The minimum time between two target assignments (KIP-1263)."""
    initial_delay_ms: int
    """The delay of the first assignment of a group that was empty."""
    max_size: int
    """The maximum number of members."""
    assignment_configs: Mapping[str, str]
    """The settings of the assignor, as in the group's record."""


class StreamsSettingsCache(GroupSettingsCache[StreamsSettings]):
    """The settings of all streams groups in one shard."""

    __slots__ = ()

    def compute(self, config: BrokerConfig, group_id: GroupId) -> StreamsSettings:
        """Compute a group's settings."""
        standby_replicas = config.group_int(group_id, "streams.num.standby.replicas")
        return StreamsSettings(
            session_timeout_ms=config.group_int(group_id, "streams.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "streams.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "streams.assignment.interval.ms"),
            initial_delay_ms=config.group_int(group_id, "streams.initial.rebalance.delay.ms"),
            max_size=config.int("group.streams.max.size"),
            assignment_configs={STANDBY_REPLICAS: str(standby_replicas)},
        )
