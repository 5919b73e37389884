"""The dispatch table: every API that is served, in which versions, and by which module.

A module is imported when its first request comes: a client asks for a few of these APIs, and to
import them all would double the time a broker takes to start. What ApiVersions tells must be known
before that, so versions stand here as well as beside their handlers; a test holds the two together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.contract import Api


class Row(NamedTuple):
    """One API: Kafka's name of it, the versions served, and the module with its handler."""

    name: str
    lowest: int
    highest: int
    module: str


TABLE: Mapping[int, Row] = {
    0: Row("Produce", 3, 13, "produce"),
    1: Row("Fetch", 4, 18, "fetch"),
    2: Row("ListOffsets", 0, 11, "list_offsets"),
    3: Row("Metadata", 0, 13, "discovery"),
    8: Row("OffsetCommit", 1, 10, "offsets"),
    9: Row("OffsetFetch", 0, 10, "offset_fetch"),
    10: Row("FindCoordinator", 0, 6, "find_coordinator"),
    11: Row("JoinGroup", 0, 9, "classic_groups"),
    12: Row("Heartbeat", 0, 4, "classic_groups"),
    13: Row("LeaveGroup", 0, 5, "classic_groups"),
    14: Row("SyncGroup", 0, 5, "classic_groups"),
    15: Row("DescribeGroups", 0, 6, "group_admin"),
    16: Row("ListGroups", 0, 5, "group_admin"),
    18: Row("ApiVersions", 0, 4, "versions_api"),
    19: Row("CreateTopics", 2, 7, "topics"),
    20: Row("DeleteTopics", 1, 6, "topics"),
    21: Row("DeleteRecords", 0, 2, "delete_records"),
    22: Row("InitProducerId", 0, 5, "producer_ids"),
    23: Row("OffsetForLeaderEpoch", 2, 4, "list_offsets"),
    24: Row("AddPartitionsToTxn", 0, 5, "transactions"),
    25: Row("AddOffsetsToTxn", 0, 4, "transactions"),
    26: Row("EndTxn", 0, 5, "transactions"),
    27: Row("WriteTxnMarkers", 1, 2, "write_txn_markers"),
    28: Row("TxnOffsetCommit", 0, 5, "txn_offset_commit"),
    32: Row("DescribeConfigs", 1, 4, "configs"),
    33: Row("AlterConfigs", 0, 2, "alter_configs"),
    35: Row("DescribeLogDirs", 1, 5, "log_dirs"),
    37: Row("CreatePartitions", 0, 3, "topics"),
    42: Row("DeleteGroups", 0, 2, "group_admin"),
    43: Row("ElectLeaders", 0, 2, "cluster"),
    44: Row("IncrementalAlterConfigs", 0, 1, "alter_configs"),
    47: Row("OffsetDelete", 0, 0, "offsets"),
    60: Row("DescribeCluster", 0, 2, "cluster"),
    61: Row("DescribeProducers", 0, 0, "describe_producers"),
    65: Row("DescribeTransactions", 0, 0, "transactions_admin"),
    66: Row("ListTransactions", 0, 2, "transactions_admin"),
    68: Row("ConsumerGroupHeartbeat", 0, 1, "consumer_groups"),
    69: Row("ConsumerGroupDescribe", 0, 1, "consumer_groups"),
    74: Row("ListConfigResources", 0, 1, "configs"),
    75: Row("DescribeTopicPartitions", 0, 0, "topic_partitions"),
    76: Row("ShareGroupHeartbeat", 1, 1, "share_groups"),
    77: Row("ShareGroupDescribe", 1, 1, "share_groups"),
    78: Row("ShareFetch", 1, 2, "share_fetch"),
    79: Row("ShareAcknowledge", 1, 2, "share_acknowledge"),
    83: Row("InitializeShareGroupState", 0, 0, "share_state"),
    84: Row("ReadShareGroupState", 0, 0, "share_state"),
    85: Row("WriteShareGroupState", 0, 1, "share_state"),
    86: Row("DeleteShareGroupState", 0, 0, "share_state"),
    87: Row("ReadShareGroupStateSummary", 0, 1, "share_state"),
    88: Row("StreamsGroupHeartbeat", 0, 0, "streams_groups"),
    89: Row("StreamsGroupDescribe", 0, 0, "streams_groups"),
    90: Row("DescribeShareGroupOffsets", 0, 1, "share_offsets"),
    91: Row("AlterShareGroupOffsets", 0, 0, "share_offsets"),
    92: Row("DeleteShareGroupOffsets", 0, 0, "share_offsets"),
}
"""API key → row; ApiVersions tells of these and of nothing else."""


def find_api(key: int) -> Api | None:
    """Return how an API is served, None when it is not."""
    row = TABLE.get(key)
    if row is None:
        return None
    apis: tuple[Api, ...] = import_module(f"kafkalite.apis.{row.module}").APIS
    return next(api for api in apis if api.key == key)
