"""Deletion of share state: what a group decided to forget, forgotten where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkalite.groups.group import GroupType
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.context import Services
    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.groups.shard import GroupShard


def delete_share_states(
    services: Services, group_id: str, partitions: Mapping[bytes, list[int]]
) -> Mapping[bytes, KafkaError]:
    """Delete the state of share partitions; return what went wrong, by topic id."""
    refused: dict[bytes, KafkaError] = {}
    for topic_id, indexes in partitions.items():
        try:
            for index in indexes:
                services.shares.delete_state(group_id, topic_id, index)
        except KafkaError as error:
            refused[topic_id] = error
    return refused


def give_up_share_state(services: Services, shard: ActiveShard[GroupShard], group_id: str) -> None:
    """Delete all share state of a group about to be deleted; nothing, for one of another type.

    KafkaError NON_EMPTY_GROUP, or what went wrong where the state is kept. The group is then
    still there, and knows what is left to be deleted.
    """
    group = shard.machine.group(group_id)
    if group is None or group.group_type is not GroupType.SHARE:
        return
    partitions = cast(
        "Mapping[bytes, list[int]]",
        shard.write(lambda machine, _: machine.share.begin_deleting_group(group_id)),
    )
    if not partitions:
        return
    services.shares.have_topic()
    for error in delete_share_states(services, group_id, partitions).values():
        raise error
