"""A member of a share group: its metadata and its current assignment.

They are two records, as in consumer groups. Members of a share group do not own partitions
exclusively, so there is no revocation: a member gets its target in one step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.groups.assignors.contract import Assignment

STABLE = 0
"""The only member state of share groups, numbered as in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """The metadata from a member's requests."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAssignment:
    """A member's epochs and its partitions."""

    member_epoch: int = 0
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)
