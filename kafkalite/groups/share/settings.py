"""What a share group is configured with: its own settings, kept within the broker's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.groups.settings import GroupSettingsBook

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """What one group is to go by."""

    session_timeout_ms: int
    """How long a member may be silent."""
    heartbeat_interval_ms: int
    """How often a member shall heartbeat."""
    assignment_interval_ms: int
    """The least time between two target assignments (KIP-1263)."""
    max_size: int
    """The most members the group may have."""
    initialize_retry_interval_ms: int
    """After how long state that was asked for and has not come is asked for again."""


class ShareSettingsBook(GroupSettingsBook[ShareSettings]):
    """The settings of every share group of one shard."""

    __slots__ = ()

    def work_out(self, config: BrokerConfig, group_id: GroupId) -> ShareSettings:
        """Return what a group is to go by."""
        return ShareSettings(
            session_timeout_ms=config.group_int(group_id, "share.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "share.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "share.assignment.interval.ms"),
            max_size=config.int("group.share.max.size"),
            initialize_retry_interval_ms=config.int("group.share.initialize.retry.interval.ms"),
        )
