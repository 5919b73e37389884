"""What a consumer group is configured with: its own settings, kept within the broker's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.groups.settings import GroupSettingsBook

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


MEMBER_ID_KEY: Final = "group.consumer.member.id.validation"
"""The broker setting that says what the ids that clients draw must look like."""
MEMBER_ID_UUID: Final = "uuid"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What one group is to go by."""

    session_timeout_ms: int
    """How long a member may be silent."""
    heartbeat_interval_ms: int
    """How often a member shall heartbeat."""
    assignment_interval_ms: int
    """The least time between two target assignments (KIP-1263)."""
    max_size: int
    """The most members the group may have."""
    compares_incarnations: bool
    """Whether of two that come with one member id the one at the lower epoch is fenced."""
    regex_refresh_interval_ms: int
    """After how long expressions are resolved again, though nothing seems to have changed."""


class SettingsBook(GroupSettingsBook[GroupSettings]):
    """The settings of every consumer group of one shard."""

    __slots__ = ()

    def work_out(self, config: BrokerConfig, group_id: GroupId) -> GroupSettings:
        """Return what a group is to go by."""
        return GroupSettings(
            session_timeout_ms=config.group_int(group_id, "consumer.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "consumer.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "consumer.assignment.interval.ms"),
            max_size=config.int("group.consumer.max.size"),
            compares_incarnations=config.str(MEMBER_ID_KEY) == MEMBER_ID_UUID,
            regex_refresh_interval_ms=config.int("group.consumer.regex.refresh.interval.ms"),
        )
