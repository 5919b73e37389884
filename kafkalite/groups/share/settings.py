"""Settings of share groups: group configuration within the broker's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.modern.settings import GroupSettingsCache

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """The settings of one group."""

    session_timeout_ms: int
    """The maximum time between two heartbeats of a member."""
    heartbeat_interval_ms: int
    """The heartbeat interval of members."""
    assignment_interval_ms: int
    """The minimum time between two target assignments (KIP-1263)."""
    max_size: int
    """The maximum number of members."""
    initialize_retry_interval_ms: int
    """The time after which an incomplete initialization of share state is requested again."""


class ShareSettingsCache(GroupSettingsCache[ShareSettings]):
    """The settings of all share groups in one shard."""

    __slots__ = ()

    def compute(self, config: BrokerConfig, group_id: GroupId) -> ShareSettings:
        """Compute a group's settings."""
        return ShareSettings(
            session_timeout_ms=config.group_int(group_id, "share.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "share.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "share.assignment.interval.ms"),
            max_size=config.int("group.share.max.size"),
            initialize_retry_interval_ms=config.int("group.share.initialize.retry.interval.ms"),
        )
