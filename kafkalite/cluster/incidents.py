"""Incidents: changes of a running cluster that make errors true, such as an expelled member.

Faults and commands cause them; `cause` names which, such as "fault f1", for the history of the
cluster. All functions return what they changed, which may be nothing, and raise KafkaError if a log
or a state machine refuses the change.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.coordinator.contract import Event
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.contract import CoordinatorResult
    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.groups.shard import GroupShard
    from kafkalite.transactions.state import ProducerIdAndEpoch

R = TypeVar("R")

INCIDENT: Final = "incident"
"""The `rule` in the facts of incidents, and the kind of event of those without another one."""

COORDINATOR_TOPICS: Final = {
    Entity.GROUP: OFFSETS_TOPIC,
    Entity.TRANSACTIONAL_ID: TRANSACTION_STATE_TOPIC,
}
"""Kind of name → the topic whose partitions are the coordinators of these names."""


# Groups


def expel(
    cluster: Cluster, group_id: str, member_ids: Collection[str], cause: str
) -> Sequence[str]:
    """Remove members of a group as if their sessions had ended; return those that existed."""
    from kafkalite.groups.incidents import expel as decide  # noqa: PLC0415 - rarely used

    return _decide(cluster, group_id, decide, (), member_ids=member_ids, cause=cause)


def begin_rebalance(cluster: Cluster, group_id: str, cause: str) -> bool:
    """Begin a rebalance of a group, unless one has begun; return whether the group has members."""
    from kafkalite.groups.incidents import begin_rebalance as decide  # noqa: PLC0415 - rarely used

    return _decide(cluster, group_id, decide, False, cause=cause)


def raise_epoch(
    cluster: Cluster, group_id: str, member_id: str, cause: str, *, keeps_previous: bool
) -> bool:
    """Raise the generation of a group, or the epoch of a member; return whether it was raised.

    See `groups.incidents.raise_epoch`.
    """
    from kafkalite.groups.incidents import raise_epoch as decide  # noqa: PLC0415 - rarely used

    return _decide(
        cluster,
        group_id,
        decide,
        False,
        member_id=member_id,
        cause=cause,
        keeps_previous=keeps_previous,
    )


def replace_instance(cluster: Cluster, group_id: str, instance_id: str, cause: str) -> None:
    """Let another member take over an instance id of a group, if a member has it."""
    from kafkalite.groups.incidents import replace_instance as decisions_of  # noqa: PLC0415 - as above

    if OFFSETS_TOPIC not in cluster.metadata.image.topics:
        return
    shard = cluster.groups.shard_for(group_id)
    decisions = decisions_of(shard.machine, group_id, instance_id, cause)
    if decisions:
        text = f"{cause} lets another member take over instance id {instance_id}"
        _record(cluster, Entity.GROUP, group_id, text)
    for decide in decisions:
        shard.write(decide)


def _decide(
    cluster: Cluster,
    group_id: str,
    decide: Callable[..., CoordinatorResult[R]],
    nothing: R,
    **arguments: Any,  # noqa: ANN401 - those of the decision
) -> R:
    """Return the response of a decision about a group, `nothing` if there are no groups."""
    if OFFSETS_TOPIC not in cluster.metadata.image.topics:
        return nothing
    decision: Callable[[GroupShard, int], CoordinatorResult[R]]
    decision = partial(decide, group_id=group_id, **arguments)
    return cluster.groups.shard_for(group_id).write_immediately(decision)


# Producers and coordinators


def fence(cluster: Cluster, transactional_id: str, cause: str) -> ProducerIdAndEpoch:
    """Give a transactional id its next epoch, and return that; an open transaction is aborted."""
    shard = cluster.transactions.shard_for(transactional_id)
    return shard.write_immediately(
        lambda machine, now_ms: machine.fence(transactional_id, cause, now_ms)
    )


def coordinator_of(cluster: Cluster, kind: Entity) -> CoordinatorRuntime[Any]:
    """Return the coordinator of groups or of transactional ids."""
    return cluster.groups if kind is Entity.GROUP else cluster.transactions


def reload_coordinator(cluster: Cluster, kind: Entity, name: str, cause: str) -> bool:
    """Load the coordinator of a group or a transactional id again; return whether there is one."""
    if COORDINATOR_TOPICS[kind] not in cluster.metadata.image.topics:
        return False
    coordinator = coordinator_of(cluster, kind)
    coordinator.reload(coordinator.partition_for(name))
    _record(cluster, kind, name, f"{cause} loaded the coordinator of {name} again")
    return True


def move_coordinator(cluster: Cluster, kind: Entity, name: str, cause: str) -> int | None:
    """Move the coordinator of a group or a transactional id to another node, and return that."""
    topic = COORDINATOR_TOPICS[kind]
    if topic not in cluster.metadata.image.topics:
        return None
    node_id = _move(cluster, topic, coordinator_of(cluster, kind).partition_for(name))
    if node_id is not None:
        _record(cluster, kind, name, f"{cause} moved the coordinator of {name} to node {node_id}")
    return node_id


# Topics


def move_leader(cluster: Cluster, topic: str, index: int, cause: str) -> int | None:
    """Let another replica in sync lead a partition; return its node, None if there is none."""
    node_id = _move(cluster, topic, index)
    if node_id is not None:
        text = f"{cause} moved the leader of {topic}-{index} to node {node_id}"
        _record(cluster, Entity.TOPIC, topic, text)
    return node_id


def _move(cluster: Cluster, topic: str, index: int) -> int | None:
    partition = cluster.metadata.image.partition(topic, index)
    if partition is None or partition.leader not in partition.replicas:
        return None
    position = partition.replicas.index(partition.leader)
    others = (*partition.replicas[position + 1 :], *partition.replicas[:position])
    for node_id in others:
        node = cluster.nodes.get(node_id)
        if node_id in partition.isr and node is not None and node.is_reachable:
            cluster.metadata.move_leader(topic, index, node_id)
            return node_id
    return None


def replace_topic(cluster: Cluster, topic: str, cause: str) -> bool:
    """Delete a topic and create it again, empty and with another id; return whether it exists.

    The partitions, their replicas and the configurations stay. Internal topics are not replaced.
    """
    image = cluster.metadata.image
    found = image.topics.get(topic)
    if found is None or found.is_internal:
        return False
    configs = image.configs.get(ConfigResource(ResourceType.TOPIC, topic), {})
    assignments = tuple((each.index, tuple(each.replicas)) for each in found.partitions)
    created = NewTopic(topic, assignments=assignments, configs=dict(configs))
    cluster.metadata.delete_topics([found.topic_id])
    (creation,) = cluster.metadata.create_topics([created])
    _record(cluster, Entity.TOPIC, topic, f"{cause} deleted topic {topic} and created it again")
    if creation.error is not None:
        raise creation.error
    return True


def delete_records(cluster: Cluster, topic: str, index: int, offset: int, cause: str) -> int | None:
    """Delete the records of a partition up to an offset, and return the first offset that is left.

    Returns None, and deletes nothing, for an offset that has no record that consumers can read.
    """
    hosted = cluster.partitions.topic(topic)
    partition = None if hosted is None or hosted.is_internal else hosted.partition(index)
    if partition is None or not partition.log_start_offset <= offset < partition.high_watermark:
        return None
    start_offset = partition.delete_records(offset + 1)
    cluster.partitions.checkpoint()
    text = f"{cause} deleted the records of {topic}-{index} before offset {start_offset}"
    _record(cluster, Entity.TOPIC, topic, text)
    return start_offset


def _record(cluster: Cluster, kind: Entity, name: str, text: str) -> None:
    event = Event(name, INCIDENT, text, {"rule": INCIDENT}, kind)
    cluster.history.add(event, cluster.clock.now_ms())
