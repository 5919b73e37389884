"""GroupSettingsCache: the settings of groups, recomputed when configurations change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId

S = TypeVar("S")


class HasSettings(Protocol[S]):
    """Soft state with cached settings."""

    settings: tuple[int, S | None]
    """The version of the configuration, and the settings at that version."""


class ConfiguredGroup(Protocol[S]):
    """A group with settings."""

    @property
    def group_id(self) -> GroupId:
        """The group's id."""

    @property
    def soft(self) -> HasSettings[S]:
        """The soft state with the cached settings, which is dropped with the group."""


class GroupSettingsCache(ABC, Generic[S]):
    """The settings of all groups of one type."""

    __slots__ = ("_config", "_latest_settings", "_version")

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._version = 0
        self._latest_settings: S | None = None

    @abstractmethod
    def compute(self, config: BrokerConfig, group_id: GroupId) -> S:
        """Compute a group's settings; its own configuration overrides the broker's."""

    def of(self, group: ConfiguredGroup[S]) -> S:
        """Return the current settings of a group."""
        version, settings = group.soft.settings
        if settings is None or version != self._version:
            settings = self.compute(self._config, group.group_id)
            # Most groups have no configuration of their own and share one settings object.
            if settings == self._latest_settings:
                settings = self._latest_settings
            self._latest_settings = settings
            group.soft.settings = (self._version, settings)
        return settings

    def invalidate(self) -> None:
        """Invalidate all cached settings."""
        self._version += 1
