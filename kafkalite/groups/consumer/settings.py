"""Settings of consumer groups: group configuration within the broker's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.groups.modern.settings import GroupSettingsCache

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId


MEMBER_ID_KEY: Final = "group.consumer.member.id.validation"
"""The broker setting for the required form of client-generated member ids."""
MEMBER_ID_UUID: Final = "uuid"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings of one group."""

    session_timeout_ms: int
    """The maximum time between two heartbeats of a member."""
    heartbeat_interval_ms: int
    """The heartbeat interval of members."""
    assignment_interval_ms: int
    """The minimum time between two target assignments (KIP-1263)."""
    max_size: int
    """The maximum number of members."""
    compares_incarnations: bool
    """Whether the client with the lower epoch is fenced if two use the same member id."""
    regex_refresh_interval_ms: int
    """The interval at which expressions are resolved again even if no topic was created."""


class ConsumerSettingsCache(GroupSettingsCache[ConsumerSettings]):
    """The settings of all consumer groups in one shard."""

    __slots__ = ()

    def compute(self, config: BrokerConfig, group_id: GroupId) -> ConsumerSettings:
        """Compute a group's settings."""
        return ConsumerSettings(
            session_timeout_ms=config.group_int(group_id, "consumer.session.timeout.ms"),
            heartbeat_interval_ms=config.group_int(group_id, "consumer.heartbeat.interval.ms"),
            assignment_interval_ms=config.group_int(group_id, "consumer.assignment.interval.ms"),
            max_size=config.int("group.consumer.max.size"),
            compares_incarnations=config.str(MEMBER_ID_KEY) == MEMBER_ID_UUID,
            regex_refresh_interval_ms=config.int("group.consumer.regex.refresh.interval.ms"),
        )
