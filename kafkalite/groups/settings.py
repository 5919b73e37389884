"""Settings of groups: worked out once for each group, and again when configurations change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.groups.group import GroupId

S = TypeVar("S")


class Remembers(Protocol[S]):
    """Soft state of a group that keeps its settings."""

    settings: tuple[int, S | None]
    """At which turn of the configuration they were worked out, and what they are."""


class Configured(Protocol[S]):
    """A group, as far as its settings are concerned."""

    @property
    def group_id(self) -> GroupId:
        """What the group is called."""

    @property
    def soft(self) -> Remembers[S]:
        """Where its settings are kept, so that they go when the group goes."""


class GroupSettingsBook(ABC, Generic[S]):
    """The settings of all groups of one kind."""

    __slots__ = ("_config", "_latest", "_turn")

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._turn = 0
        self._latest: S | None = None

    @abstractmethod
    def work_out(self, config: BrokerConfig, group_id: GroupId) -> S:
        """Return what the configuration says of a group: its own settings before the broker's."""

    def of(self, group: Configured[S]) -> S:
        """Return what a group is to go by now."""
        turn, settings = group.soft.settings
        if settings is None or turn != self._turn:
            settings = self.work_out(self._config, group.group_id)
            # Nearly all groups have nothing of their own to say, and share what they go by.
            if settings == self._latest:
                settings = self._latest
            self._latest = settings
            group.soft.settings = (self._turn, settings)
        return settings

    def forget(self) -> None:
        """Read everything anew."""
        self._turn += 1
