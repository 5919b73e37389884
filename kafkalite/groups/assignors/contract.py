"""The input and output types of assignors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Assignment = Mapping[bytes, frozenset[int]]
"""Topic id → partition indexes; topics without partitions are omitted, so that `==` works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member as an assignor sees it."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    """The existing topics it subscribes to."""
    previous: Assignment = field(default_factory=dict)
    """Its previous target assignment, for stickiness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Topic id → number of partitions, for each topic that a member subscribes to."""
    is_homogeneous: bool
    """Whether all members subscribe to all these topics."""


Assignor = Callable[[GroupSpec], Mapping[str, Assignment]]
"""Assigns every partition of every subscribed topic to exactly one subscriber."""
