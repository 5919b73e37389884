"""Status entries in responses to StreamsGroupHeartbeat, numbered as on the wire."""

from __future__ import annotations

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple


class StatusCode(IntEnum):
    """The codes of status entries."""

    STALE_TOPOLOGY = 0
    """The member's topology is older than the group's."""
    MISSING_SOURCE_TOPICS = 1
    """Source topics of the application are missing."""
    INCORRECTLY_PARTITIONED_TOPICS = 2
    """Copartitioned topics have different partition counts."""
    MISSING_INTERNAL_TOPICS = 3
    """Internal topics are missing; they are being created."""
    SHUTDOWN_APPLICATION = 4
    """A member requested the shutdown of the application."""
    ASSIGNMENT_DELAYED = 5
    """The next assignment is delayed by configuration."""
    MISSING_CLIENT_TAGS = 6
    """The client lacks tags that rack-aware assignment needs."""


class Status(NamedTuple):
    """One status entry of a response."""

    code: StatusCode
    detail: str


class IncorrectlyPartitionedError(Exception):
    """Copartitioned topics have different partition counts; the message names them."""


_MAX_TOPIC_NAMES = 3
"""The maximum number of topics that a text names."""


def format_topic_names(topics: list[str]) -> str:
    """Return a text with the first topics and the number of further ones."""
    more = len(topics) - _MAX_TOPIC_NAMES
    named = ", ".join(topics[:_MAX_TOPIC_NAMES])
    return f"{named} and {more} additional topics" if more > 0 else named
