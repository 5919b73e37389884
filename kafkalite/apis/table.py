"""The table of APIs: every API that is served, its versions and its module.

A module is imported when its first request arrives: clients use few of these APIs, and importing
all modules would delay every start. ApiVersions needs the versions before that, so this table
repeats the versions of the modules; a test compares them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.gateway.api import Api


class Row(NamedTuple):
    """One API: Kafka's name, the served versions, and the module with its handler."""

    name: str
    lowest: int
    highest: int
    module: str
    unstable: int | None = None
    """The highest version with `unstable.api.versions.enable`, if it differs."""
    oldest: int | None = None
    """The lowest version if a release is emulated that has it, if it differs."""


_ROWS = (
    Row("Produce", 3, 13, "data.produce", oldest=0),
    Row("Fetch", 4, 18, "data.fetch", oldest=0),
    Row("ListOffsets", 0, 11, "data.list_offsets"),
    Row("Metadata", 0, 13, "topics.metadata"),
    Row("OffsetCommit", 1, 10, "groups.offset_commit", oldest=0),
    Row("OffsetFetch", 0, 10, "groups.offset_fetch"),
    Row("FindCoordinator", 0, 6, "groups.find_coordinator"),
    Row("JoinGroup", 0, 9, "groups.classic"),
    Row("Heartbeat", 0, 4, "groups.classic"),
    Row("LeaveGroup", 0, 5, "groups.classic"),
    Row("SyncGroup", 0, 5, "groups.classic"),
    Row("DescribeGroups", 0, 6, "groups.admin"),
    Row("ListGroups", 0, 5, "groups.admin"),
    Row("SaslHandshake", 0, 1, "security.sasl"),
    Row("ApiVersions", 0, 5, "api_versions"),
    Row("CreateTopics", 2, 7, "topics.topics", oldest=0),
    Row("DeleteTopics", 1, 6, "topics.topics", oldest=0),
    Row("DeleteRecords", 0, 2, "data.delete_records"),
    Row("InitProducerId", 0, 5, "transactions.producer_ids", unstable=6),
    Row("OffsetForLeaderEpoch", 2, 4, "data.list_offsets", oldest=0),
    Row("AddPartitionsToTxn", 0, 5, "transactions.transactions"),
    Row("AddOffsetsToTxn", 0, 4, "transactions.transactions"),
    Row("EndTxn", 0, 5, "transactions.transactions"),
    Row("WriteTxnMarkers", 1, 2, "transactions.write_txn_markers", oldest=0),
    Row("TxnOffsetCommit", 0, 6, "transactions.txn_offset_commit"),
    Row("DescribeAcls", 1, 3, "security.acls", oldest=0),
    Row("CreateAcls", 1, 3, "security.acls", oldest=0),
    Row("DeleteAcls", 1, 3, "security.acls", oldest=0),
    Row("DescribeConfigs", 1, 4, "configs.describe", oldest=0),
    Row("AlterConfigs", 0, 2, "configs.alter"),
    Row("AlterReplicaLogDirs", 1, 2, "data.log_dirs", oldest=0),
    Row("DescribeLogDirs", 1, 5, "data.log_dirs", oldest=0),
    Row("SaslAuthenticate", 0, 2, "security.sasl"),
    Row("CreatePartitions", 0, 3, "topics.topics"),
    Row("CreateDelegationToken", 1, 3, "security.delegation_tokens", oldest=0),
    Row("RenewDelegationToken", 1, 2, "security.delegation_tokens", oldest=0),
    Row("ExpireDelegationToken", 1, 2, "security.delegation_tokens", oldest=0),
    Row("DescribeDelegationToken", 1, 3, "security.delegation_tokens", oldest=0),
    Row("DeleteGroups", 0, 3, "groups.admin"),
    Row("ElectLeaders", 0, 2, "cluster"),
    Row("IncrementalAlterConfigs", 0, 1, "configs.alter"),
    Row("AlterPartitionReassignments", 0, 1, "topics.reassignments"),
    Row("ListPartitionReassignments", 0, 0, "topics.reassignments"),
    Row("OffsetDelete", 0, 0, "groups.offset_commit"),
    Row("DescribeUserScramCredentials", 0, 0, "security.scram_credentials"),
    Row("AlterUserScramCredentials", 0, 0, "security.scram_credentials"),
    Row("DescribeQuorum", 0, 2, "quorum"),
    Row("UpdateFeatures", 0, 2, "features"),
    Row("DescribeCluster", 0, 2, "cluster"),
    Row("DescribeClientQuotas", 0, 1, "security.client_quotas"),
    Row("AlterClientQuotas", 0, 1, "security.client_quotas"),
    Row("DescribeProducers", 0, 0, "transactions.describe_producers"),
    Row("UnregisterBroker", 0, 0, "cluster"),
    Row("DescribeTransactions", 0, 0, "transactions.admin"),
    Row("ListTransactions", 0, 2, "transactions.admin"),
    Row("ConsumerGroupHeartbeat", 0, 1, "groups.consumer"),
    Row("ConsumerGroupDescribe", 0, 1, "groups.consumer"),
    Row("GetTelemetrySubscriptions", 0, 0, "telemetry"),
    Row("PushTelemetry", 0, 0, "telemetry"),
    Row("ListConfigResources", 0, 1, "configs.describe"),
    Row("DescribeTopicPartitions", 0, 0, "topics.topic_partitions"),
    Row("ShareGroupHeartbeat", 1, 1, "shares.groups"),
    Row("ShareGroupDescribe", 1, 1, "shares.groups"),
    Row("ShareFetch", 1, 2, "shares.fetch"),
    Row("ShareAcknowledge", 1, 2, "shares.acknowledge"),
    Row("AddRaftVoter", 0, 1, "quorum"),
    Row("RemoveRaftVoter", 0, 0, "quorum"),
    Row("InitializeShareGroupState", 0, 0, "shares.state"),
    Row("ReadShareGroupState", 0, 0, "shares.state"),
    Row("WriteShareGroupState", 0, 1, "shares.state"),
    Row("DeleteShareGroupState", 0, 0, "shares.state"),
    Row("ReadShareGroupStateSummary", 0, 1, "shares.state"),
    Row("StreamsGroupHeartbeat", 0, 1, "groups.streams"),
    Row("StreamsGroupDescribe", 0, 1, "groups.streams"),
    Row("DescribeShareGroupOffsets", 0, 1, "shares.offsets"),
    Row("AlterShareGroupOffsets", 0, 0, "shares.offsets"),
    Row("DeleteShareGroupOffsets", 0, 0, "shares.offsets"),
    Row("StreamsGroupTopologyDescriptionUpdate", 0, 0, "groups.streams"),
    Row("UnregisterController", 0, 0, "quorum"),
)

_KEYS = {codec.api_name(key): key for key in codec.api_keys()}

TABLE: Mapping[int, Row] = {_KEYS[row.name]: row for row in _ROWS}
"""API key → row; the APIs in ApiVersions responses."""


def find_api(key: int) -> Api | None:
    """Return the `Api` with this key; None if it is not served."""
    row = TABLE.get(key)
    if row is None:
        return None
    apis: tuple[Api, ...] = import_module(f"kafkalite.apis.{row.module}").APIS
    return next(api for api in apis if api.key == key)
