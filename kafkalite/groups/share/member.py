"""A member of a share group: what it said of itself, and what it has been given.

As in consumer groups the two halves are two records. A share group has no revocation: nothing is
anybody's alone, so a member goes straight to its target and needs no state on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.groups.assignors.contract import Assignment

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
"""What a member sends instead of its epoch to join and to leave."""

STABLE = 0
"""The only state of a member that a share group writes, numbered as in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """What a member last said of itself."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAssignment:
    """What a member has been given, and the epochs it has come to."""

    member_epoch: int = 0
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)
