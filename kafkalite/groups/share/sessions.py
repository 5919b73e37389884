"""Sessions of share group members; there is nothing else that they have to do in time."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.groups.deadlines import Deadlines, MemberExpiry


@dataclass(frozen=True, slots=True)
class ShareSessionExpiry(MemberExpiry):
    """A session in a share group may be over."""


class ShareSessions(Deadlines):
    """The deadline of every member of every share group of one shard."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(ShareSessionExpiry)
