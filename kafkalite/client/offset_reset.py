"""The reset of a group's offsets: which partitions, and which offsets they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import (
    ClientError,
    NoLeaderError,
    UnknownNameError,
    no_partition_text,
)
from kafkalite.client.groups import (
    GroupListing,
    describe_group,
    find_group,
    group_partitions,
)
from kafkalite.client.offsets import end_offsets, first_offsets, limited, target_offsets
from kafkalite.client.topics import find_topic
from kafkalite.groups.group import GroupType
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.client.offsets import OffsetTarget


class ResetPlan(NamedTuple):
    """The offsets of a group before and after a reset."""

    group: GroupListing
    former: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]


async def plan_reset(
    client: KafkaClient,
    group_id: str,
    topics: Mapping[str, Sequence[int] | None],
    target: OffsetTarget | None,
    shift: int | None = None,
) -> ResetPlan:
    """Return the offsets that a reset would set, by topic and partition.

    `topics` has the partitions by topic, None for all of them; without topics, those with an offset
    of the group are reset. A group that does not exist may be given with topics: as with Kafka's
    tool, the reset creates it. The new offset is that of `target`, or the former one plus `shift`.
    Raises UnknownNameError, ClientError or BrokerError.
    """
    try:
        group = await find_group(client, group_id)
    except UnknownNameError:
        if not topics:
            raise
        group = GroupListing(group_id, GroupType.CLASSIC.value, "", "", -1)
        former: dict[TopicPartition, int] = {}
    else:
        rows = await group_partitions(client, await describe_group(client, group_id))
        former = {row.partition: row.offset for row in rows if row.offset is not None}
    partitions = [each for name, chosen in topics.items()
                  for each in await _partitions(client, name, chosen)]  # fmt: skip
    partitions = partitions or list(former)
    if target is not None:
        offsets = await target_offsets(client, partitions, target)
    else:
        assert shift is not None
        offsets = await _shifted(client, partitions, former, shift)
    for each in partitions:
        if each not in offsets:
            raise NoLeaderError(each)
    return ResetPlan(group, former, dict(sorted(offsets.items())))


async def _partitions(
    client: KafkaClient, name: str, chosen: Sequence[int] | None
) -> list[TopicPartition]:
    count = len((await find_topic(client, name)).partitions)
    for index in chosen or ():
        if index >= count:
            raise ClientError(no_partition_text(name, index, count))
    return [TopicPartition(name, index) for index in chosen or range(count)]


async def _shifted(
    client: KafkaClient,
    partitions: Sequence[TopicPartition],
    former: Mapping[TopicPartition, int],
    shift: int,
) -> dict[TopicPartition, int]:
    """Return the former offsets plus `shift`, limited to those of the partitions."""
    for each in partitions:
        if each not in former:
            raise ClientError(f"the group has no offset of {each} that can be shifted")
    starts = await first_offsets(client, partitions)
    ends = await end_offsets(client, partitions)
    return {
        each: limited(former[each] + shift, starts[each], ends[each])
        for each in partitions
        if each in starts and each in ends
    }
