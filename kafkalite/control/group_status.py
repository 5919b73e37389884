"""Groups as commands return them: state, members, committed offsets and lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About

if TYPE_CHECKING:
    from collections.abc import Sequence

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
STATES: Final = (
    "Stable",
    EMPTY,
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    DEAD,
)
"""The states of groups of all types; Dead is the state of a group that does not exist."""

_MAX_SHOWN: Final = 10
"""The maximum number of members, and of partitions, in the text of a group."""


@dataclass(frozen=True, slots=True, repr=False)
class TopicPartitions:
    """Partitions of a topic."""

    topic: Annotated[str, About("Name of the topic.")]
    partitions: Annotated[tuple[int, ...], About("Indexes of the partitions.")]

    def __repr__(self) -> str:
        """Return the partitions as Kafka's tools write them: "orders-0,1"."""
        indexes = _shown(self.partitions, ",")
        return f"{self.topic}-{indexes}"


@dataclass(frozen=True, slots=True, repr=False)
class GroupMember:
    """A member of a group."""

    member_id: Annotated[str, About("Id of the member.")]
    instance_id: Annotated[str | None, About("group.instance.id; null for a dynamic member.")]
    client_id: Annotated[str, About("Client id.")]
    host: Annotated[str, About("Address of the client as Kafka's tools show it: /127.0.0.1.")]
    protocol: Annotated[
        str,
        About("Protocol of the member: `classic`, `consumer`, `share` or `streams`."),
    ]
    epoch: Annotated[int, About("Epoch of the member; the generation in a classic group.")]
    subscription: Annotated[tuple[str, ...], About("Subscribed topics, if they are known.")]
    assignment: Annotated[
        tuple[TopicPartitions, ...],
        About("Partitions of the member; in a streams group, the inputs of its active tasks."),
    ]
    active_tasks: Annotated[tuple[str, ...], About("Active tasks of a streams group.")] = ()
    standby_tasks: Annotated[tuple[str, ...], About("Standby tasks of a streams group.")] = ()
    warmup_tasks: Annotated[tuple[str, ...], About("Warm-up tasks of a streams group.")] = ()

    def __repr__(self) -> str:
        """Return the member with its client and its partitions."""
        name = self.instance_id or self.client_id or self.member_id
        assigned = _shown(self.assignment) or "nothing assigned"
        return f"<member {name} at {self.host.removeprefix('/')}: {assigned}>"


@dataclass(frozen=True, slots=True, repr=False)
class GroupOffset:
    """The committed offset of a group in a partition, and its lag."""

    topic: Annotated[str, About("Name of the topic.")]
    partition: Annotated[int, About("Index of the partition.")]
    offset: Annotated[
        int | None,
        About(
            "Committed offset; in a share group the start offset. Null for an assigned partition "
            "without one."
        ),
    ]
    leader_epoch: Annotated[int | None, About("Leader epoch in the commit; null without one.")]
    metadata: Annotated[str, About("Metadata in the commit.")]
    committed_ms: Annotated[
        int | None, About("Time of the commit in milliseconds since the Unix epoch, if known.")
    ]
    end_offset: Annotated[
        int | None,
        About("High watermark of the partition; null if it does not exist or has no leader."),
    ]
    lag: Annotated[
        int | None,
        About(
            "Records that the group has not consumed: `end_offset` - `offset`, as Kafka's tools "
            "count. It includes records of transactions, and markers. Null if it is not known."
        ),
    ]
    member_id: Annotated[str | None, About("Member that has the partition; null without one.")]

    def __repr__(self) -> str:
        """Return the offset in its partition with the lag."""
        lag = "" if self.lag is None else f" lag {self.lag}"
        end = "" if self.end_offset is None else f" of {self.end_offset}"
        return f"<{self.topic}-{self.partition} at {self.offset}{end}{lag}>"


@dataclass(frozen=True, slots=True, repr=False)
class ListedGroup:
    """A group in a list."""

    group_id: Annotated[str, About("Id of the group.")]
    type: Annotated[str, About("Type: `classic`, `consumer`, `share` or `streams`.")]
    protocol_type: Annotated[
        str, About("Protocol type, such as `consumer`; empty for a group that never had members.")
    ]
    state: Annotated[str, About("State as Kafka's tools show it, such as `Stable`.")]
    coordinator: Annotated[int, About("Node that coordinates the group.")]
    members: Annotated[int, About("Number of members.")]

    def __repr__(self) -> str:
        """Return the group with its state."""
        return f"<{self.type} group {self.group_id!r} {self.state}, members: {self.members}>"


@dataclass(frozen=True, slots=True)
class GroupList:
    """All groups by id."""

    groups: Annotated[tuple[ListedGroup, ...], About("Groups by id.")]


@dataclass(frozen=True, slots=True, repr=False)
class GroupStatus:
    """A group with its members, its committed offsets and its lag."""

    group_id: Annotated[str, About("Id of the group.")]
    type: Annotated[str, About("Type: `classic`, `consumer`, `share` or `streams`.")]
    protocol_type: Annotated[
        str, About("Protocol type, such as `consumer`; empty for a group that never had members.")
    ]
    protocol: Annotated[
        str, About("Assignor, such as `range` or `uniform`; empty if none was selected.")
    ]
    state: Annotated[str, About("State as Kafka's tools show it, such as `Stable`.")]
    epoch: Annotated[int, About("Epoch of the group; the generation of a classic group.")]
    assignment_epoch: Annotated[
        int | None, About("Epoch of the target assignment; null for a classic group.")
    ]
    coordinator: Annotated[
        int | None, About("Node that coordinates the group; null for a group that is Dead.")
    ]
    members: Annotated[tuple[GroupMember, ...], About("Members by id.")]
    offsets: Annotated[
        tuple[GroupOffset, ...],
        About("Committed offsets and assigned partitions, by topic and partition."),
    ]

    def __repr__(self) -> str:
        """Return the group with its state, its first members and its first offsets."""
        parts = [f"<{self.type} group {self.group_id!r} {self.state} at epoch {self.epoch}"]
        if self.coordinator is not None:
            parts.append(f"coordinator: node {self.coordinator}")
        parts.append(f"members: {_shown(self.members) or 'none'}")
        parts.append(f"offsets: {_shown(self.offsets) or 'none'}>")
        return ", ".join(parts)


def dead_group(group_id: str) -> GroupStatus:
    """Return the status of a group that does not exist."""
    return GroupStatus(group_id, "unknown", "", "", DEAD, 0, None, None, (), ())


def _shown(values: Sequence[object], separator: str = " ") -> str:
    """Join the texts of the first values."""
    hidden = len(values) - _MAX_SHOWN
    more = [f"(and {hidden} more)"] if hidden > 0 else []
    return separator.join([*map(repr, values[:_MAX_SHOWN]), *more])
