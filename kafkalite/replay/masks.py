"""Masks: which fields mean more, or less, than their values say; one table, each row with its why.

A row is for a field by its name in messages, in all APIs or in one, and says how two values of it
are compared and what it names. What has no row is compared as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from kafkalite.replay.mapping import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY = "*"


class Treatment(Enum):
    """How two values of a field are compared."""

    EXACT = "as they are"
    IGNORED = "not at all"
    PRESENCE = "only whether there is one"
    MAPPED = "by what they stand for"
    RECORDS = "with all others of the partition, at the end"
    SET = "without order"


@dataclass(frozen=True, slots=True)
class Mask:
    """What is known of a field."""

    treatment: Treatment
    why: str
    kind: Kind | None = None
    teaches: bool = False
    """Whether the broker makes the value up here, so that it is learnt from this field."""


def _mapped(kind: Kind, why: str) -> Mask:
    return Mask(Treatment.MAPPED, why, kind)


def _taught(kind: Kind, why: str) -> Mask:
    return Mask(Treatment.MAPPED, why, kind, teaches=True)


def _presence(why: str) -> Mask:
    return Mask(Treatment.PRESENCE, why)


def _ignored(why: str) -> Mask:
    return Mask(Treatment.IGNORED, why)


_MEMBER = "the coordinator makes ids of members up"
_EPOCH = "generations and epochs count from when a group began, which the capture need not have"
_PRODUCER = "ids come from blocks that each cluster hands out by itself"
_TOPIC_ID = "a topic's id is drawn when it is made"
_OFFSET = "the log of the target may begin elsewhere"
_LEADER = "elections count in each cluster by themselves"
_NODE = "nodes may have other ids, and what leads where is each cluster's choice"
_ADDRESS = "where a broker is is not what it does"
_WORDING = "brokers word the same refusal differently; that they say something is compared"
_TIME = "the time at which a broker did something is its own"
_DISK = "disks and directories differ"
_MOVES = "moves with every write, and the two are not asked at the same instant"
_OPAQUE = "bytes of clients, in which members may be named"

MASKS: Mapping[tuple[str, str], Mask] = {
    (ANY, "throttle_time_ms"): _ignored("what a quota says at the moment"),
    (ANY, "error_message"): _presence(_WORDING),
    (ANY, "acknowledge_error_message"): _presence(_WORDING),
    (ANY, "batch_index_error_message"): _presence(_WORDING),
    (ANY, "status_detail"): _presence(_WORDING),
    (ANY, "documentation"): _presence("help texts of a configuration are a release's own"),
    # What the broker invents.
    (ANY, "member_id"): _mapped(Kind.MEMBER, _MEMBER),
    ("JoinGroup", "member_id"): _taught(Kind.MEMBER, _MEMBER),
    ("JoinGroup", "members.member_id"): _mapped(Kind.MEMBER, _MEMBER),
    ("JoinGroup", "leader"): _mapped(Kind.MEMBER, _MEMBER),
    ("ConsumerGroupHeartbeat", "member_id"): _taught(Kind.MEMBER, _MEMBER),
    ("ShareGroupHeartbeat", "member_id"): _taught(Kind.MEMBER, _MEMBER),
    ("StreamsGroupHeartbeat", "member_id"): _taught(Kind.MEMBER, _MEMBER),
    (ANY, "generation_id"): _mapped(Kind.GROUP_EPOCH, _EPOCH),
    ("JoinGroup", "generation_id"): _taught(Kind.GROUP_EPOCH, _EPOCH),
    (ANY, "generation_id_or_member_epoch"): _mapped(Kind.GROUP_EPOCH, _EPOCH),
    (ANY, "member_epoch"): _mapped(Kind.GROUP_EPOCH, _EPOCH),
    ("ConsumerGroupHeartbeat", "member_epoch"): _taught(Kind.GROUP_EPOCH, _EPOCH),
    ("ShareGroupHeartbeat", "member_epoch"): _taught(Kind.GROUP_EPOCH, _EPOCH),
    ("StreamsGroupHeartbeat", "member_epoch"): _taught(Kind.GROUP_EPOCH, _EPOCH),
    (ANY, "group_epoch"): _mapped(Kind.GROUP_EPOCH, _EPOCH),
    (ANY, "assignment_epoch"): _mapped(Kind.GROUP_EPOCH, _EPOCH),
    (ANY, "producer_id"): _mapped(Kind.PRODUCER_ID, _PRODUCER),
    (ANY, "v3_and_below_producer_id"): _mapped(Kind.PRODUCER_ID, _PRODUCER),
    (ANY, "ongoing_txn_producer_id"): _mapped(Kind.PRODUCER_ID, _PRODUCER),
    (ANY, "producer_id_filters"): _mapped(Kind.PRODUCER_ID, _PRODUCER),
    ("InitProducerId", "producer_id"): _taught(Kind.PRODUCER_ID, _PRODUCER),
    ("EndTxn", "producer_id"): _taught(Kind.PRODUCER_ID, _PRODUCER),
    (ANY, "producer_epoch"): _mapped(Kind.PRODUCER_EPOCH, _PRODUCER),
    (ANY, "v3_and_below_producer_epoch"): _mapped(Kind.PRODUCER_EPOCH, _PRODUCER),
    (ANY, "ongoing_txn_producer_epoch"): _mapped(Kind.PRODUCER_EPOCH, _PRODUCER),
    ("InitProducerId", "producer_epoch"): _taught(Kind.PRODUCER_EPOCH, _PRODUCER),
    ("EndTxn", "producer_epoch"): _taught(Kind.PRODUCER_EPOCH, _PRODUCER),
    (ANY, "topic_id"): _mapped(Kind.TOPIC_ID, _TOPIC_ID),
    ("Metadata", "topics.topic_id"): _taught(Kind.TOPIC_ID, _TOPIC_ID),
    ("CreateTopics", "topics.topic_id"): _taught(Kind.TOPIC_ID, _TOPIC_ID),
    ("DescribeTopicPartitions", "topics.topic_id"): _taught(Kind.TOPIC_ID, _TOPIC_ID),
    ("Fetch", "session_id"): _taught(Kind.SESSION, "fetch sessions are drawn by chance"),
    (ANY, "client_instance_id"): _mapped(Kind.CLIENT_INSTANCE, "drawn by chance"),
    ("GetTelemetrySubscriptions", "client_instance_id"): _taught(
        Kind.CLIENT_INSTANCE, "drawn by chance"
    ),
    (ANY, "subscription_id"): _mapped(Kind.SUBSCRIPTION, "a checksum over what is subscribed"),
    ("GetTelemetrySubscriptions", "subscription_id"): _taught(
        Kind.SUBSCRIPTION, "a checksum over what is subscribed"
    ),
    # Offsets, and what counts elections.
    **{
        (ANY, name): _mapped(Kind.OFFSET, _OFFSET)
        for name in (
            "fetch_offset",
            "committed_offset",
            "log_start_offset",
            "first_offset",
            "last_offset",
            "offset",
            "low_watermark",
            "start_offset",
            "current_txn_start_offset",
            "end_offset",
        )
    },
    ("Produce", "base_offset"): _mapped(Kind.OFFSET, _OFFSET),
    ("Produce", "responses.partition_responses.base_offset"): _taught(Kind.OFFSET, _OFFSET),
    ("StreamsGroupHeartbeat", "offset"): _ignored("restoring tasks tell how far they are"),
    (ANY, "high_watermark"): _ignored(_MOVES),
    (ANY, "last_stable_offset"): _ignored(_MOVES),
    **{
        (ANY, name): _mapped(Kind.LEADER_EPOCH, _LEADER)
        for name in (
            "leader_epoch",
            "current_leader_epoch",
            "committed_leader_epoch",
            "last_fetched_epoch",
        )
    },
    ("Metadata", "topics.partitions.leader_epoch"): _taught(Kind.LEADER_EPOCH, _LEADER),
    ("DescribeTopicPartitions", "topics.partitions.leader_epoch"): _taught(
        Kind.LEADER_EPOCH, _LEADER
    ),
    # Where things are.
    **{
        (ANY, name): Mask(Treatment.PRESENCE, _NODE, Kind.NODE)
        for name in (
            "node_id",
            "leader_id",
            "broker_id",
            "replica_nodes",
            "isr_nodes",
            "offline_replicas",
            "eligible_leader_replicas",
            "last_known_elr",
            "adding_replicas",
            "removing_replicas",
            "replicas",
            "broker_ids",
            "preferred_read_replica",
        )
    },
    (ANY, "controller_id"): _presence("any broker may be named, for it passes requests on"),
    (ANY, "cluster_id"): _presence("drawn when a cluster is made"),
    (ANY, "host"): _presence(_ADDRESS),
    (ANY, "port"): _presence(_ADDRESS),
    (ANY, "client_host"): _presence("clients come from elsewhere in a replay"),
    ("DescribeAcls", "host"): Mask(Treatment.EXACT, "the host of an ACL is what a client said"),
    ("DeleteAcls", "host"): Mask(Treatment.EXACT, "the host of an ACL is what a client said"),
    (ANY, "log_dir"): _presence(_DISK),
    (ANY, "total_bytes"): _presence(_DISK),
    (ANY, "usable_bytes"): _presence(_DISK),
    (ANY, "partition_size"): _ignored("heads of batches and their codecs take what they take"),
    (ANY, "is_cordoned"): _ignored(_DISK),
    # What is of a moment.
    (ANY, "log_append_time_ms"): _presence(_TIME),
    (ANY, "transaction_start_time_ms"): _presence(_TIME),
    (ANY, "last_timestamp"): _presence(_TIME),
    (ANY, "last_fetch_timestamp"): _ignored(_TIME),
    (ANY, "last_caught_up_timestamp"): _ignored(_TIME),
    (ANY, "issue_timestamp"): _presence(_TIME),
    (ANY, "issue_timestamp_ms"): _presence(_TIME),
    (ANY, "expiry_timestamp"): _presence(_TIME),
    (ANY, "expiry_timestamp_ms"): _presence(_TIME),
    (ANY, "max_timestamp"): _presence(_TIME),
    (ANY, "max_timestamp_ms"): _presence(_TIME),
    (ANY, "timeout_ms"): _ignored("Java's admin client says how much it has left as it asks"),
    ("Produce", "timeout_ms"): Mask(Treatment.EXACT, "how a producer is configured"),
    (ANY, "push_interval_ms"): _ignored("spread by chance, so that clients do not push at once"),
    (ANY, "finalized_features_epoch"): _presence("counts changes of the cluster's metadata"),
    # What only its receiver reads.
    (ANY, "assignment"): Mask(Treatment.EXACT, "what structs hold is compared field by field"),
    ("SyncGroup", "assignment"): _mapped(Kind.OPAQUE, _OPAQUE),
    ("SyncGroup", "assignments.assignment"): _mapped(Kind.OPAQUE, _OPAQUE),
    ("JoinGroup", "protocols.metadata"): _mapped(Kind.OPAQUE, _OPAQUE),
    ("JoinGroup", "members.metadata"): _mapped(Kind.OPAQUE, _OPAQUE),
    (ANY, "member_assignment"): _mapped(Kind.OPAQUE, _OPAQUE),
    (ANY, "member_metadata"): _mapped(Kind.OPAQUE, _OPAQUE),
    (ANY, "records"): Mask(
        Treatment.RECORDS, "how records are grouped into answers depends on the moment",
        Kind.RECORDS,
    ),
    ("Fetch", "responses.partitions.aborted_transactions"): _ignored(
        "tells of the records beside it, whose grouping depends on the moment"
    ),
    ("Fetch", "responses.partitions.current_leader"): _ignored("a hint at what Metadata tells"),
    (ANY, "node_endpoints"): _ignored("a hint at what Metadata tells"),
    (ANY, "auth_bytes"): _ignored("secrets, which captures leave out"),
    (ANY, "hmac"): _ignored("secrets"),
}  # fmt: skip
"""(API, field) → what is known of it: the field's whole path counts before its name alone, and a
row for one API before one for all."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "api_keys": ("api_key",),
    "supported_features": ("name",),
    "finalized_features": ("name",),
    "topics": ("name", "topic", "topic_name", "topic_id"),
    "responses": ("name", "topic", "topic_id", "resource_name", "topic_name"),
    "partitions": ("partition_index", "partition", "partition_id"),
    "partition_responses": ("index",),
    "brokers": ("broker_id", "node_id"),
    "node_endpoints": ("node_id",),
    "configs": ("name",),
    "groups": ("group_id",),
    "members": ("group_instance_id", "instance_id", "member_id"),
    "results": ("resource_name", "group_id", "name", "topic_name"),
    "config_resources": ("resource_type", "resource_name"),
    "topic_partitions": ("topic_name", "topic_id"),
    "active_tasks": ("subtopology_id",),
    "standby_tasks": ("subtopology_id",),
    "warmup_tasks": ("subtopology_id",),
    "active_partitions": ("topic",),
    "standby_partitions": ("topic",),
    "partitions_by_user_endpoint": ("user_endpoint",),
    "topic_configs": ("key",),
    "client_tags": ("key",),
    "transaction_states": ("transactional_id",),
    "results_by_transaction": ("transactional_id",),
    "topic_results": ("name",),
    "results_by_topic_v3_and_below": ("name",),
    "results_by_partition": ("partition_index",),
    "active_producers": ("producer_id",),
    "markers": ("producer_id",),
    "coordinators": ("key",),
    "aborted_transactions": ("producer_id", "first_offset"),
}
"""Lists whose order means nothing (Kafka fills them from hash maps) → what tells their rows
apart, the first of these fields that says anything."""

OPTIONAL_ROWS: Mapping[tuple[str, str], str] = {
    ("Fetch", "responses"): "a fetch session leaves out what has no news",
    ("Fetch", "responses.partitions"): "a fetch session leaves out what has no news",
    ("ShareFetch", "responses"): "partitions without records are left out",
    ("ShareFetch", "responses.partitions"): "partitions without records are left out",
}
"""(API, list) → why a row may be in one answer alone, as long as it tells no error."""

COMPOSITE = frozenset(("config_resources", "aborted_transactions"))
"""Those of these lists whose rows are told apart by all their keys together."""

SETS = frozenset(
    (
        "partitions",
        "partition_indexes",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
        "subscribed_topic_names",
        "unknown_state_filters",
        "mechanisms",
        "accepted_compression_types",
    )
)
"""Lists of plain values whose order means nothing."""

_EXACT = Mask(Treatment.EXACT, "compared as it is")
_SET = Mask(Treatment.SET, "Kafka fills it from a hash map")


@cache
def mask_of(api: str, path: str) -> Mask:
    """Return what is known of the field of an API, at a path such as "topics.topic_id"."""
    name = path.rpartition(".")[2]
    for row in ((api, path), (api, name), (ANY, name)):
        if row in MASKS:
            return MASKS[row]
    return _SET if name in SETS else _EXACT
