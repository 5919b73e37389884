"""Deletion of share state by requests to the share coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.group import GroupType
from kafkalite.ports.waiting import chain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.groups.shard import GroupShard
    from kafkalite.ports.waiting import Waiting
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.shares.state import ShareKey


def delete_share_states(
    node: Node, group_id: str, partitions: Mapping[bytes, list[int]]
) -> Mapping[bytes, KafkaError] | Waiting[Mapping[bytes, KafkaError]]:
    """Delete the state of share partitions; return the first error of each topic id."""

    def by_topic(errors: Mapping[ShareKey, KafkaError]) -> Mapping[bytes, KafkaError]:
        refused: dict[bytes, KafkaError] = {}
        for key, error in errors.items():
            refused.setdefault(key.topic_id, error)
        return refused

    return chain(node.share_persister.delete(group_id, partitions), by_topic)


def delete_share_state_of_group(
    node: Node, shard: ActiveShard[GroupShard], group_id: str
) -> Waiting[None] | None:
    """Delete all share state of a share group before the group itself is deleted.

    Returns None if nothing is pending, as for other group types. Raises KafkaError, directly or
    through the Waiting: NON_EMPTY_GROUP, or the error of a deletion. The group then still exists,
    with a list of the states that remain.
    """
    group = shard.machine.group(group_id)
    if group is None or group.group_type is not GroupType.SHARE:
        return None
    partitions = shard.write_immediately(
        lambda machine, _: machine.share.begin_deleting_group(group_id)
    )
    if not partitions:
        return None

    def check(errors: Mapping[bytes, KafkaError]) -> None:
        for error in errors.values():
            raise error

    node.share_persister.ensure_topic()
    return chain(delete_share_states(node, group_id, partitions), check)
