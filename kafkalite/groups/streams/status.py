"""Status: what a member of a streams group is told besides its tasks, numbered as on the wire."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """What keeps the members of a streams group from going on, or is to end them."""

    STALE_TOPOLOGY = 0
    """The member has an earlier topology than the group."""
    MISSING_SOURCE_TOPICS = 1
    """Topics that the application reads and does not make are not there."""
    INCORRECTLY_PARTITIONED_TOPICS = 2
    """Topics that are read together differ in their numbers of partitions."""
    MISSING_INTERNAL_TOPICS = 3
    """Topics of the application's own are not there yet; they are being made."""
    SHUTDOWN_APPLICATION = 4
    """A member asked for all of them to stop."""
    ASSIGNMENT_DELAYED = 5
    """There is no new assignment yet, by configuration."""


class Status(NamedTuple):
    """One thing a member is told, and its particulars in words."""

    code: StatusCode
    detail: str


class IncorrectlyPartitionedError(Exception):
    """Topics that are read together cannot be; the message says which."""


_NAMED = 3
"""Of many topics only so many are named."""


def name_some(topics: list[str]) -> str:
    """Return the first few topics, and how many more there are."""
    more = len(topics) - _NAMED
    named = ", ".join(topics[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named
