"""What a consumer group is configured with: its own settings, kept within the broker's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import GroupId


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
    regex_refresh_interval_ms: int
    """After how long expressions are resolved again, though nothing seems to have changed."""


class SettingsBook:
    """Every group's settings, worked out once and again when configurations change.

    What was worked out is kept with the group, so that it goes when the group goes.
    """

    __slots__ = ("_config", "_turn")

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._turn = 0

    def of(self, group: ConsumerGroup) -> GroupSettings:
        """Return what a group is to go by now."""
        turn, settings = group.soft.settings
        if settings is None or turn != self._turn:
            group_id = group.group_id
            settings = GroupSettings(
                session_timeout_ms=self._bounded(group_id, "session.timeout.ms"),
                heartbeat_interval_ms=self._bounded(group_id, "heartbeat.interval.ms"),
                assignment_interval_ms=self._bounded(group_id, "assignment.interval.ms"),
                max_size=self._config.int("group.consumer.max.size"),
                regex_refresh_interval_ms=self._config.int(
                    "group.consumer.regex.refresh.interval.ms"
                ),
            )
            group.soft.settings = (self._turn, settings)
        return settings

    def _bounded(self, group_id: GroupId, name: str) -> int:
        """Return a group's setting; it may have been made while the bounds were wider."""
        config = self._config
        least = config.int(f"group.consumer.min.{name}")
        most = config.int(f"group.consumer.max.{name}")
        return max(least, min(config.group_int(group_id, f"consumer.{name}"), most))

    def forget(self) -> None:
        """Read everything anew."""
        self._turn += 1
