"""What an assignor is told and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Assignment = Mapping[bytes, frozenset[int]]
"""Topic id → partition indexes; a topic with none is left out, so that equal means equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member as an assignor sees it."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    """The topics it subscribes to, those alone that exist."""
    previous: Assignment = field(default_factory=dict)
    """Its last target assignment, which stickiness is measured against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Every topic that any member subscribes to."""
    is_homogeneous: bool
    """Whether all members subscribe to all these topics."""


Assignor = Callable[[GroupSpec], Mapping[str, Assignment]]
"""Gives every partition of every subscribed topic to exactly one subscriber; pure."""
