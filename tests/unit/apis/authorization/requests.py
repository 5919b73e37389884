"""One request of every API that needs permissions, and the permissions that it needs.

`REQUESTS` is also the source of the comparison with a real Kafka.
"""

# ruff: noqa: ANN401 - request classes of several APIs
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.apis.table import TABLE
from kafkalite.protocol import codec
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from tests.conformance.batches import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.table import Row
    from kafkalite.protocol.message import Message

TOPIC: Final = "topic"
OTHER_TOPIC: Final = "other"
GROUP: Final = "group"
SHARE_GROUP: Final = "share"
TRANSACTIONAL_ID: Final = "tx"
MISSING_TOPIC: Final = "missing"

NAMES: Final = {
    Resource.TOPIC: TOPIC,
    Resource.GROUP: GROUP,
    Resource.CLUSTER: "kafka-cluster",
    Resource.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
}


class Needs(NamedTuple):
    """An operation on a resource that a request needs."""

    operation: Operation
    resource: Resource
    name: str = ""

    @property
    def resource_name(self) -> str:
        """The name of the resource."""
        return self.name or NAMES[self.resource]


class Case(NamedTuple):
    """A request, and the permissions of its client that matter."""

    key: ApiKey
    build: Callable[[Any, int, Mapping[str, bytes]], Message]
    """(request class, version, topic ids by name) → the request."""
    needs: tuple[Needs, ...]
    """All of them together are sufficient for an answer without an authorization error."""
    label: str = ""
    lowest: int = 0
    """The first version whose request is built this way."""
    highest: int = 1 << 15


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

READ_GROUP = Needs(READ, Resource.GROUP)
DESCRIBE_GROUP = Needs(DESCRIBE, Resource.GROUP)
DELETE_GROUP = Needs(DELETE, Resource.GROUP)
READ_TOPIC, WRITE_TOPIC = Needs(READ, Resource.TOPIC), Needs(WRITE, Resource.TOPIC)
DESCRIBE_TOPIC = Needs(DESCRIBE, Resource.TOPIC)
WRITE_ID = Needs(WRITE, Resource.TRANSACTIONAL_ID)
DESCRIBE_ID = Needs(DESCRIBE, Resource.TRANSACTIONAL_ID)
CLUSTER_ACTION = Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER)
ALTER_CLUSTER, DESCRIBE_CLUSTER = Needs(ALTER, Resource.CLUSTER), Needs(DESCRIBE, Resource.CLUSTER)
CREATE_CLUSTER = Needs(CREATE, Resource.CLUSTER)


def _group(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(group_id=GROUP, member_id="m")


def _join(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    protocol = request.JoinGroupRequestProtocol(name="range", metadata=b"")
    return request(
        group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip


def _sync(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(group_id=GROUP, member_id="m", protocol_type="consumer", protocol_name="range")


def _topic_fields(version: int, by_id_from: int, ids: Mapping[str, bytes]) -> dict[str, Any]:
    if version >= by_id_from:
        return {"topic_id": ids[TOPIC]}
    return {"name": TOPIC}


def _fetch(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    topic = {"topic_id": ids[TOPIC]} if version >= 13 else {"topic": TOPIC}
    partition = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return request(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1,
        topics=[request.FetchTopic(**topic, partitions=[partition])],
    )  # fmt: skip


def _list_offsets(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partition = request.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return request(topics=[request.ListOffsetsTopic(name=TOPIC, partitions=[partition])])


def _metadata(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(
        topics=[request.MetadataRequestTopic(name=TOPIC)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )


def _metadata_of_all(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del ids
    return request(topics=None if version else [], allow_auto_topic_creation=False)


def _metadata_by_id(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version
    return request(
        topics=[request.MetadataRequestTopic(name=None, topic_id=ids[TOPIC])],
        allow_auto_topic_creation=False,
    )


def _metadata_creating(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(topics=[request.MetadataRequestTopic(name=MISSING_TOPIC)])


def _offset_commit(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    partition = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = request.OffsetCommitRequestTopic(
        **_topic_fields(version, 10, ids), partitions=[partition]
    )
    return request(group_id=GROUP, topics=[topic])


def _offset_fetch(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    if version < 8:
        topic = request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        return request(group_id=GROUP, topics=[topic])
    topic = request.OffsetFetchRequestTopics(
        **_topic_fields(version, 10, ids), partition_indexes=[0]
    )
    return request(groups=[request.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])


def _offset_fetch_of_all(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del ids
    if version < 8:
        return request(group_id=GROUP, topics=None)
    return request(groups=[request.OffsetFetchRequestGroup(group_id=GROUP, topics=None)])


def _coordinator(key_type: int, key: str) -> Callable[..., Any]:
    def build(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
        del ids
        if version < 4:
            return request(key_type=key_type, key=key)
        return request(key_type=key_type, coordinator_keys=[key])

    return build


def _describe_groups(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(groups=[GROUP], include_authorized_operations=True)


def _group_ids(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(group_ids=[GROUP], include_authorized_operations=True)


def _empty(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request()


def _create_topics(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    topic = request.CreatableTopic(name=MISSING_TOPIC, num_partitions=1, replication_factor=1)
    return request(topics=[topic], validate_only=True, timeout_ms=10_000)


def _delete_topics(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del ids
    if version < 6:
        return request(topic_names=[MISSING_TOPIC, TOPIC], timeout_ms=10_000)
    states = [request.DeleteTopicState(name=name) for name in (MISSING_TOPIC, TOPIC)]
    return request(topics=states, timeout_ms=10_000)


def _delete_topic_by_id(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version
    state = request.DeleteTopicState(name=None, topic_id=ids[TOPIC])
    return request(topics=[state], timeout_ms=10_000)


def _delete_records(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partition = request.DeleteRecordsPartition(partition_index=0, offset=0)
    return request(topics=[request.DeleteRecordsTopic(name=TOPIC, partitions=[partition])])


def _init_producer(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=1000)


def _init_idempotent(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(transactional_id=None, transaction_timeout_ms=1000)


def _leader_epoch(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partition = request.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return request(topics=[request.OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])])


def _add_partitions(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del ids
    topic = request.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    if version < 4:
        return request(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=1,
            v3_and_below_topics=[topic],
        )
    transaction = request.AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTIONAL_ID, producer_id=1, topics=[topic]
    )
    return request(transactions=[transaction])


def _add_offsets(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(transactional_id=TRANSACTIONAL_ID, producer_id=1, group_id=GROUP)


def _end_txn(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(transactional_id=TRANSACTIONAL_ID, producer_id=1, committed=True)


def _markers(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    topic = request.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = request.WritableTxnMarker(producer_id=1, transaction_result=True, topics=[topic])
    return request(markers=[marker])


def _txn_commit(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    partition = request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return request(
        transactional_id=TRANSACTIONAL_ID, group_id=GROUP, producer_id=1, producer_epoch=0,
        topics=[
            request.TxnOffsetCommitRequestTopic(
                **_topic_fields(version, 6, ids), partitions=[partition]
            )
        ],
    )  # fmt: skip


def _describe_acls(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(
        resource_type_filter=6, resource_name_filter=None, pattern_type_filter=1,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip


def _create_acls(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    acl = request.AclCreation(
        resource_type=6, resource_name="t", principal="untyped", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    return request(creations=[acl])


def _delete_acls(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    selection = request.DeleteAclsFilter(
        resource_type_filter=6, resource_name_filter=None, pattern_type_filter=3,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    return request(filters=[selection])


def _describe_configs(kind: int, name: str) -> Callable[..., Any]:
    def build(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
        del version, ids
        resource = request.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=["no.such.key"]
        )
        return request(resources=[resource])

    return build


def _alter_log_dirs(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    topic = request.AlterReplicaLogDirTopic(name=TOPIC, partitions=[9])
    return request(dirs=[request.AlterReplicaLogDir(path="/none", topics=[topic])])


def _describe_log_dirs(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(topics=[])


def _create_partitions(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    topic = request.CreatePartitionsTopic(name=TOPIC, count=9, assignments=None)
    return request(topics=[topic], validate_only=True, timeout_ms=10_000)


def _create_token(owner: str | None) -> Callable[..., Any]:
    def build(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
        del version, ids
        kind = None if owner is None else "User"
        return request(owner_principal_type=kind, owner_principal_name=owner, max_lifetime_ms=-1)

    return build


def _describe_tokens(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(owners=None)


def _delete_groups(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(groups_names=[GROUP])


def _elect_leaders(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partitions = request.TopicPartitions(topic=TOPIC, partitions=[0])
    return request(topic_partitions=[partitions])


def _reassign(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partition = request.ReassignablePartition(partition_index=0, replicas=None)
    return request(topics=[request.ReassignableTopic(name=TOPIC, partitions=[partition])])


def _list_reassignments(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(topics=None)


def _offset_delete(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partition = request.OffsetDeleteRequestPartition(partition_index=0)
    return request(
        group_id=GROUP,
        topics=[request.OffsetDeleteRequestTopic(name=TOPIC, partitions=[partition])],
    )


def _describe_cluster(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(include_cluster_authorized_operations=True)


def _describe_producers(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(
        topics=[
            request.TopicRequest(name=name, partition_indexes=[0])
            for name in ("a b", TOPIC, OTHER_TOPIC)
        ]
    )


def _unregister(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(broker_id=999)


def _describe_quorum(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    # An unknown partition: the offsets of the metadata log differ between brokers.
    partition = request.PartitionData(partition_index=1)
    topic = request.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return request(topics=[topic])


def _raft_voter(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(cluster_id=None, voter_id=999)


def _unregister_controller(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(controller_id=999)


def _update_features(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(
        feature_updates=[request.FeatureUpdateKey(feature="group.version", max_version_level=1)]
    )


def _alter_quotas(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    entity = request.EntityData(entity_type="user", entity_name="a")
    quota = request.OpData(key="speed", value=1.0)
    return request(entries=[request.EntryData(entity=[entity], ops=[quota])])


def _describe_scram(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(users=[request.UserName(name="unknown-user")])


def _alter_scram(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(deletions=[request.ScramCredentialDeletion(name="unknown-user", mechanism=1)])


def _describe_transactions(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(transactional_ids=[TRANSACTIONAL_ID])


def _consumer_heartbeat(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(
        group_id=GROUP, member_id="m", member_epoch=-1, subscribed_topic_names=[TOPIC],
    )  # fmt: skip


def _topic_partitions(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(topics=[request.TopicRequest(name=TOPIC)])


def _share_fetch(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version
    topic = request.FetchTopic(
        topic_id=ids[TOPIC], partitions=[request.FetchPartition(partition_index=0)]
    )
    return request(
        group_id=GROUP, member_id="AAAAAAAAAAAAAAAAAAAAAA", share_session_epoch=0, max_wait_ms=0,
        min_bytes=0, max_bytes=1 << 20, max_records=0, topics=[topic],
    )  # fmt: skip


def _share_acknowledge(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version
    topic = request.AcknowledgeTopic(
        topic_id=ids[TOPIC], partitions=[request.AcknowledgePartition(partition_index=0)]
    )
    return request(
        group_id=GROUP, member_id="AAAAAAAAAAAAAAAAAAAAAA", share_session_epoch=1, topics=[topic]
    )


def _share_state(struct: str) -> Callable[..., Any]:
    def build(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
        del version
        partition = request.PartitionData(partition=0)
        topic = getattr(request, struct)(topic_id=ids[TOPIC], partitions=[partition])
        return request(group_id=GROUP, topics=[topic])

    return build


def _streams_heartbeat(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    subtopology = request.Subtopology(subtopology_id="0", source_topics=[TOPIC])
    topology = request.Topology(epoch=0, subtopologies=[subtopology])
    return request(group_id=GROUP, member_id="m", member_epoch=-1, topology=topology)


def _topology_description(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    return request(group_id=GROUP, member_id="m", topology_epoch=0)


def _describe_share_offsets(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    topic = request.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[0])
    group = request.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[topic])
    return request(groups=[group])


def _alter_share_offsets(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    partition = request.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = request.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[partition])
    return request(group_id=SHARE_GROUP, topics=[topic])


def _delete_share_offsets(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    del version, ids
    topic = request.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)
    return request(group_id=SHARE_GROUP, topics=[topic])


def _alter_configs(kind: int, name: str, key: str, value: str) -> Callable[..., Any]:
    def build(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
        del version, ids
        resource = request.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[request.AlterableConfig(name=key, value=value)],
        )
        return request(resources=[resource], validate_only=True)

    return build


def _produce(request: Any, version: int, ids: Mapping[str, bytes]) -> Any:
    # The partition does not exist, so that nothing is written.
    data = request.PartitionProduceData(index=9, records=batch(b"value"))
    topic = request.TopicProduceData(**_topic_fields(version, 13, ids), partition_data=[data])
    return request(acks=1, timeout_ms=1000, topic_data=[topic])


_RETENTION = ("retention.ms", "1")
READ_SHARE_GROUP = Needs(READ, Resource.GROUP, SHARE_GROUP)
DELETE_SHARE_GROUP = Needs(DELETE, Resource.GROUP, SHARE_GROUP)
_MISSING_CONFIGS = Needs(DESCRIBE_CONFIGS, Resource.TOPIC, MISSING_TOPIC)
_MISSING_CREATE = Needs(CREATE, Resource.TOPIC, MISSING_TOPIC)

CASES: Final = (
    Case(ApiKey.PRODUCE, _produce, (WRITE_TOPIC,)),
    Case(ApiKey.FETCH, _fetch, (READ_TOPIC,)),
    Case(ApiKey.LIST_OFFSETS, _list_offsets, (DESCRIBE_TOPIC,), lowest=1),
    Case(ApiKey.METADATA, _metadata, (DESCRIBE_TOPIC,)),
    Case(ApiKey.METADATA, _metadata_of_all, (), "all"),
    Case(ApiKey.METADATA, _metadata_by_id, (DESCRIBE_TOPIC,), "by id", lowest=12),
    Case(
        ApiKey.METADATA, _metadata_creating,
        (Needs(DESCRIBE, Resource.TOPIC, MISSING_TOPIC), _MISSING_CREATE), "creating", lowest=4,
    ),
    Case(ApiKey.OFFSET_COMMIT, _offset_commit, (READ_GROUP, READ_TOPIC), lowest=2),
    Case(ApiKey.OFFSET_FETCH, _offset_fetch, (DESCRIBE_GROUP, DESCRIBE_TOPIC), lowest=1),
    Case(ApiKey.OFFSET_FETCH, _offset_fetch_of_all, (DESCRIBE_GROUP,), "all", lowest=2),
    Case(ApiKey.FIND_COORDINATOR, _coordinator(0, GROUP), (DESCRIBE_GROUP,)),
    Case(ApiKey.FIND_COORDINATOR, _coordinator(1, TRANSACTIONAL_ID), (DESCRIBE_ID,), "id",
         lowest=1),
    Case(ApiKey.FIND_COORDINATOR, _coordinator(2, f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"),
         (CLUSTER_ACTION,), "share", lowest=6),
    Case(ApiKey.JOIN_GROUP, _join, (READ_GROUP,), lowest=4),
    Case(ApiKey.HEARTBEAT, _group, (READ_GROUP,)),
    Case(ApiKey.LEAVE_GROUP, _group, (READ_GROUP,), highest=2),
    Case(ApiKey.SYNC_GROUP, _sync, (READ_GROUP,)),
    Case(ApiKey.DESCRIBE_GROUPS, _describe_groups, (DESCRIBE_GROUP,)),
    Case(ApiKey.LIST_GROUPS, _empty, ()),
    Case(ApiKey.CREATE_TOPICS, _create_topics, (_MISSING_CREATE,), "on topic", highest=4),
    Case(ApiKey.CREATE_TOPICS, _create_topics, (CREATE_CLUSTER,), "on cluster", highest=4),
    Case(ApiKey.CREATE_TOPICS, _create_topics, (_MISSING_CREATE, _MISSING_CONFIGS),
         "with configs", lowest=5),
    Case(ApiKey.DELETE_TOPICS, _delete_topics, (
        Needs(DELETE, Resource.TOPIC, MISSING_TOPIC), Needs(DELETE, Resource.TOPIC)),
        lowest=1),
    Case(ApiKey.DELETE_TOPICS, _delete_topic_by_id, (Needs(DELETE, Resource.TOPIC),), "by id",
         lowest=6),
    Case(ApiKey.DELETE_RECORDS, _delete_records, (Needs(DELETE, Resource.TOPIC),)),
    Case(ApiKey.INIT_PRODUCER_ID, _init_producer, (WRITE_ID,)),
    Case(ApiKey.INIT_PRODUCER_ID, _init_idempotent, (WRITE_TOPIC,), "by topic"),
    Case(ApiKey.INIT_PRODUCER_ID, _init_idempotent,
         (Needs(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),), "by cluster"),
    Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, _leader_epoch, (DESCRIBE_TOPIC,), "client"),
    Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, _leader_epoch, (CLUSTER_ACTION,), "node"),
    Case(ApiKey.ADD_PARTITIONS_TO_TXN, _add_partitions, (WRITE_ID, WRITE_TOPIC), highest=3),
    Case(ApiKey.ADD_PARTITIONS_TO_TXN, _add_partitions, (CLUSTER_ACTION,), "node", lowest=4),
    Case(ApiKey.ADD_OFFSETS_TO_TXN, _add_offsets, (WRITE_ID, READ_GROUP)),
    Case(ApiKey.END_TXN, _end_txn, (WRITE_ID,)),
    Case(ApiKey.WRITE_TXN_MARKERS, _markers, (CLUSTER_ACTION,), "node"),
    Case(ApiKey.WRITE_TXN_MARKERS, _markers, (ALTER_CLUSTER,), "admin"),
    Case(ApiKey.TXN_OFFSET_COMMIT, _txn_commit, (WRITE_ID, READ_GROUP, READ_TOPIC)),
    Case(ApiKey.DESCRIBE_ACLS, _describe_acls, (DESCRIBE_CLUSTER,)),
    Case(ApiKey.CREATE_ACLS, _create_acls, (ALTER_CLUSTER,)),
    Case(ApiKey.DELETE_ACLS, _delete_acls, (ALTER_CLUSTER,)),
    Case(ApiKey.DESCRIBE_CONFIGS, _describe_configs(2, TOPIC),
         (Needs(DESCRIBE_CONFIGS, Resource.TOPIC),), "topic"),
    Case(ApiKey.DESCRIBE_CONFIGS, _describe_configs(4, "1"),
         (Needs(DESCRIBE_CONFIGS, Resource.CLUSTER),), "broker"),
    Case(ApiKey.DESCRIBE_CONFIGS, _describe_configs(32, GROUP),
         (Needs(DESCRIBE_CONFIGS, Resource.GROUP),), "group"),
    Case(ApiKey.ALTER_CONFIGS, _alter_configs(2, TOPIC, *_RETENTION),
         (Needs(ALTER_CONFIGS, Resource.TOPIC),), "topic"),
    Case(ApiKey.ALTER_CONFIGS, _alter_configs(4, "", "log.retention.ms", "1"),
         (Needs(ALTER_CONFIGS, Resource.CLUSTER),), "broker"),
    Case(ApiKey.ALTER_REPLICA_LOG_DIRS, _alter_log_dirs, (ALTER_CLUSTER,)),
    Case(ApiKey.DESCRIBE_LOG_DIRS, _describe_log_dirs, (DESCRIBE_CLUSTER,), lowest=3),
    Case(ApiKey.CREATE_PARTITIONS, _create_partitions, (Needs(ALTER, Resource.TOPIC),)),
    Case(ApiKey.CREATE_DELEGATION_TOKEN, _create_token(None), ()),
    Case(ApiKey.CREATE_DELEGATION_TOKEN, _create_token("bob"),
         (Needs(Operation.CREATE_TOKENS, Resource.USER, "User:bob"),), "of bob", lowest=3),
    Case(ApiKey.DESCRIBE_DELEGATION_TOKEN, _describe_tokens, ()),
    Case(ApiKey.DELETE_GROUPS, _delete_groups, (DELETE_GROUP,)),
    Case(ApiKey.ELECT_LEADERS, _elect_leaders, (ALTER_CLUSTER,)),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, _alter_configs(2, TOPIC, *_RETENTION),
         (Needs(ALTER_CONFIGS, Resource.TOPIC),), "topic"),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS,
         _alter_configs(32, GROUP, "consumer.session.timeout.ms", "50000"),
         (Needs(ALTER_CONFIGS, Resource.GROUP),), "group"),
    Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, _alter_configs(8, "1", "kafka", "INFO"),
         (Needs(ALTER_CONFIGS, Resource.CLUSTER),), "logger"),
    Case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _reassign, (ALTER_CLUSTER,)),
    Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, _list_reassignments, (DESCRIBE_CLUSTER,)),
    Case(ApiKey.OFFSET_DELETE, _offset_delete, (DELETE_GROUP, READ_TOPIC)),
    Case(ApiKey.DESCRIBE_QUORUM, _describe_quorum, (DESCRIBE_CLUSTER,)),
    Case(ApiKey.UPDATE_FEATURES, _update_features, (ALTER_CLUSTER,)),
    Case(ApiKey.DESCRIBE_CLUSTER, _describe_cluster, ()),
    Case(ApiKey.DESCRIBE_PRODUCERS, _describe_producers,
         (READ_TOPIC, Needs(READ, Resource.TOPIC, OTHER_TOPIC))),
    Case(ApiKey.DESCRIBE_CLIENT_QUOTAS, _empty, (Needs(DESCRIBE_CONFIGS, Resource.CLUSTER),)),
    Case(ApiKey.ALTER_CLIENT_QUOTAS, _alter_quotas, (Needs(ALTER_CONFIGS, Resource.CLUSTER),)),
    Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _describe_scram, (DESCRIBE_CLUSTER,)),
    Case(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _alter_scram, (ALTER_CLUSTER,)),
    Case(ApiKey.ADD_RAFT_VOTER, _raft_voter, (ALTER_CLUSTER,)),
    Case(ApiKey.REMOVE_RAFT_VOTER, _raft_voter, (ALTER_CLUSTER,)),
    Case(ApiKey.UNREGISTER_CONTROLLER, _unregister_controller, (ALTER_CLUSTER,)),
    Case(ApiKey.UNREGISTER_BROKER, _unregister, (ALTER_CLUSTER,)),
    Case(ApiKey.DESCRIBE_TRANSACTIONS, _describe_transactions, (DESCRIBE_ID,)),
    Case(ApiKey.LIST_TRANSACTIONS, _empty, ()),
    Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, _consumer_heartbeat, (READ_GROUP, DESCRIBE_TOPIC)),
    Case(ApiKey.CONSUMER_GROUP_DESCRIBE, _group_ids, (DESCRIBE_GROUP,)),
    Case(ApiKey.LIST_CONFIG_RESOURCES, _empty, (Needs(DESCRIBE_CONFIGS, Resource.CLUSTER),)),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _topic_partitions, (DESCRIBE_TOPIC,)),
    Case(ApiKey.SHARE_GROUP_HEARTBEAT, _consumer_heartbeat, (READ_GROUP, DESCRIBE_TOPIC)),
    Case(ApiKey.SHARE_GROUP_DESCRIBE, _group_ids, (DESCRIBE_GROUP,)),
    Case(ApiKey.SHARE_FETCH, _share_fetch, (READ_GROUP, READ_TOPIC)),
    Case(ApiKey.SHARE_ACKNOWLEDGE, _share_acknowledge, (READ_GROUP,)),
    Case(ApiKey.INITIALIZE_SHARE_GROUP_STATE, _share_state("InitializeStateData"),
         (CLUSTER_ACTION,)),
    Case(ApiKey.READ_SHARE_GROUP_STATE, _share_state("ReadStateData"), (CLUSTER_ACTION,)),
    Case(ApiKey.WRITE_SHARE_GROUP_STATE, _share_state("WriteStateData"), (CLUSTER_ACTION,)),
    Case(ApiKey.DELETE_SHARE_GROUP_STATE, _share_state("DeleteStateData"), (CLUSTER_ACTION,)),
    Case(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, _share_state("ReadStateSummaryData"),
         (CLUSTER_ACTION,)),
    Case(ApiKey.STREAMS_GROUP_HEARTBEAT, _streams_heartbeat, (READ_GROUP, DESCRIBE_TOPIC)),
    Case(ApiKey.STREAMS_GROUP_DESCRIBE, _group_ids, (DESCRIBE_GROUP,)),
    Case(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, _topology_description, (READ_GROUP,)),
    Case(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, _describe_share_offsets,
         (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Case(ApiKey.ALTER_SHARE_GROUP_OFFSETS, _alter_share_offsets, (READ_SHARE_GROUP, READ_TOPIC)),
    Case(ApiKey.DELETE_SHARE_GROUP_OFFSETS, _delete_share_offsets,
         (DELETE_SHARE_GROUP, READ_TOPIC)),
)  # fmt: skip
"""The requests; at least one for every served API with permissions."""


def versions_of(case: Case, rows: Mapping[int, Row] = TABLE) -> list[int]:
    """Return the versions of the API that the case is for; `rows` are the served APIs."""
    served = rows.get(case.key)
    if served is None:
        return []
    return [
        version
        for version in range(served.lowest, served.highest + 1)
        if case.lowest <= version <= case.highest
    ]


def request_of(case: Case, version: int, topic_ids: Mapping[str, bytes]) -> Message:
    """Return the request of a case in one version."""
    request: Message = case.build(codec.request_class(case.key), version, topic_ids)
    return request


def grants_of(case: Case) -> list[tuple[Needs, ...]]:
    """Return the sets of permissions to try: each without one of those needed, and all."""
    without_one = [tuple(other for other in case.needs if other is not need) for need in case.needs]
    return list(dict.fromkeys([(), *without_one, case.needs]))
