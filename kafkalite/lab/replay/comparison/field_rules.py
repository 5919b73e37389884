"""Rules for comparing fields whose values normally differ between brokers, each with its reason.

A rule applies to fields with one name or path, in one API or in all. It defines how two values are
compared, and which kind of id or counter the field holds. Fields without a rule must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from kafkalite.lab.replay.rewriting.id_mapping import ValueKind
from kafkalite.protocol import codec
from kafkalite.protocol.catalogue import ROWS, GeneratedValue

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY = "*"


class Treatment(Enum):
    """The way in which two values of a field are compared."""

    EXACT = "values must be equal"
    IGNORED = "not compared"
    PRESENCE = "both or neither must have a value"
    MAPPED = "the recorded value is translated by the id mapping first"
    RECORDS = "with all records of the partition, at the end of the replay"
    SET = "as sets"


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The treatment of a field, and the reason for it."""

    treatment: Treatment
    reason: str
    kind: ValueKind | None = None
    is_generated: bool = False
    """Whether the broker generates the value in this field, so that the mapping learns it here."""


def _mapped_rule(kind: ValueKind, reason: str) -> FieldRule:
    return FieldRule(Treatment.MAPPED, reason, kind)


def _generated_rule(kind: ValueKind, reason: str) -> FieldRule:
    return FieldRule(Treatment.MAPPED, reason, kind, is_generated=True)


def _presence_rule(reason: str) -> FieldRule:
    return FieldRule(Treatment.PRESENCE, reason)


def _ignored_rule(reason: str) -> FieldRule:
    return FieldRule(Treatment.IGNORED, reason)


_MEMBER = "the group coordinator generates member ids"
_EPOCH = "generations and epochs start with the group, which may be older than the capture"
_PRODUCER = "each cluster allocates its own blocks of producer ids"
_TOPIC_ID = "topic ids are random"
_OFFSET = "the target's log may start at another offset"
_LEADER = "each cluster counts its own leader elections"
_INCARNATION = "each cluster counts the partitions that it created"
_NODE = "node ids and partition placement differ between clusters"
_ADDRESS = "addresses of brokers differ"
_WORDING = "the texts of an error differ between brokers; only the presence of a text is compared"
_TIME = "time of the broker's own action"
_DISK = "disks and directories differ"
_GROWS = "changes with every write, and the two requests are sent at different moments"
_OPAQUE = "bytes of clients that may contain member ids"

_GENERATED_VALUE_REASONS: Mapping[GeneratedValue, str] = {
    GeneratedValue.MEMBER: _MEMBER,
    GeneratedValue.GROUP_EPOCH: _EPOCH,
    GeneratedValue.PRODUCER_ID: _PRODUCER,
    GeneratedValue.PRODUCER_EPOCH: _PRODUCER,
    GeneratedValue.TOPIC_ID: _TOPIC_ID,
    GeneratedValue.LEADER_EPOCH: _LEADER,
    GeneratedValue.INCARNATION_EPOCH: _INCARNATION,
    GeneratedValue.OFFSET: _OFFSET,
    GeneratedValue.SESSION: "fetch session ids are random",
    GeneratedValue.CLIENT_INSTANCE: "random",
    GeneratedValue.SUBSCRIPTION: "a checksum of the subscribed metrics",
}
"""Kind of generated value → the reason why the value differs between two clusters."""

FIELD_RULES: Mapping[tuple[str, str], FieldRule] = {
    (ANY, "throttle_time_ms"): _ignored_rule("depends on the current load and quotas"),
    (ANY, "error_message"): _presence_rule(_WORDING),
    (ANY, "acknowledge_error_message"): _presence_rule(_WORDING),
    (ANY, "batch_index_error_message"): _presence_rule(_WORDING),
    (ANY, "status_detail"): _presence_rule(_WORDING),
    (ANY, "documentation"): _presence_rule("help texts of settings differ between releases"),
    # Values that the broker generates, and the fields that repeat them.
    **{
        (codec.api_name(key), field_path): _generated_rule(
            ValueKind[value.name], _GENERATED_VALUE_REASONS[value]
        )
        for key, row in ROWS.items()
        for value, field_path in row.generates.items()
    },
    (ANY, "member_id"): _mapped_rule(ValueKind.MEMBER, _MEMBER),
    ("JoinGroup", "members.member_id"): _mapped_rule(ValueKind.MEMBER, _MEMBER),
    ("JoinGroup", "leader"): _mapped_rule(ValueKind.MEMBER, _MEMBER),
    (ANY, "generation_id"): _mapped_rule(ValueKind.GROUP_EPOCH, _EPOCH),
    (ANY, "generation_id_or_member_epoch"): _mapped_rule(ValueKind.GROUP_EPOCH, _EPOCH),
    (ANY, "member_epoch"): _mapped_rule(ValueKind.GROUP_EPOCH, _EPOCH),
    (ANY, "group_epoch"): _mapped_rule(ValueKind.GROUP_EPOCH, _EPOCH),
    (ANY, "assignment_epoch"): _mapped_rule(ValueKind.GROUP_EPOCH, _EPOCH),
    (ANY, "producer_id"): _mapped_rule(ValueKind.PRODUCER_ID, _PRODUCER),
    (ANY, "v3_and_below_producer_id"): _mapped_rule(ValueKind.PRODUCER_ID, _PRODUCER),
    (ANY, "ongoing_txn_producer_id"): _mapped_rule(ValueKind.PRODUCER_ID, _PRODUCER),
    (ANY, "producer_id_filters"): _mapped_rule(ValueKind.PRODUCER_ID, _PRODUCER),
    (ANY, "producer_epoch"): _mapped_rule(ValueKind.PRODUCER_EPOCH, _PRODUCER),
    (ANY, "v3_and_below_producer_epoch"): _mapped_rule(ValueKind.PRODUCER_EPOCH, _PRODUCER),
    (ANY, "ongoing_txn_producer_epoch"): _mapped_rule(ValueKind.PRODUCER_EPOCH, _PRODUCER),
    (ANY, "topic_id"): _mapped_rule(ValueKind.TOPIC_ID, _TOPIC_ID),
    (ANY, "client_instance_id"): _mapped_rule(ValueKind.CLIENT_INSTANCE, "random"),
    (ANY, "subscription_id"): _mapped_rule(
        ValueKind.SUBSCRIPTION, "a checksum of the subscribed metrics"
    ),
    # Offsets and leader epochs.
    **{
        (ANY, name): _mapped_rule(ValueKind.OFFSET, _OFFSET)
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
    ("Produce", "base_offset"): _mapped_rule(ValueKind.OFFSET, _OFFSET),
    ("StreamsGroupHeartbeat", "offset"): _ignored_rule(
        "progress of a task that restores its state"
    ),
    (ANY, "high_watermark"): _ignored_rule(_GROWS),
    (ANY, "last_stable_offset"): _ignored_rule(_GROWS),
    **{
        (ANY, name): _mapped_rule(ValueKind.LEADER_EPOCH, _LEADER)
        for name in (
            "leader_epoch",
            "current_leader_epoch",
            "committed_leader_epoch",
            "last_fetched_epoch",
        )
    },
    ("Fetch", "responses.partitions.diverging_epoch.epoch"): _mapped_rule(
        ValueKind.LEADER_EPOCH, _LEADER
    ),
    # Epochs that clients, or the nodes of one cluster, choose.
    **{
        (ANY, name): FieldRule(Treatment.EXACT, reason)
        for name, reason in {
            "session_epoch": "a client counts the requests of a session",
            "share_session_epoch": "a client counts the requests of a session",
            "epoch": "clients choose the epochs of topologies",
            "topology_epoch": "clients choose the epochs of topologies",
            "endpoint_information_epoch": "counts the changes of endpoints, from the first member",
            "replica_epoch": "sent by brokers only",
            "coordinator_epoch": "sent by brokers only",
            "state_epoch": "sent by brokers only",
        }.items()
    },
    (ANY, "incarnation_epoch"): _mapped_rule(ValueKind.INCARNATION_EPOCH, _INCARNATION),
    (ANY, "max_incarnation_epoch"): _presence_rule(_INCARNATION),
    # Nodes, addresses and disks.
    **{
        (ANY, name): FieldRule(Treatment.PRESENCE, _NODE, ValueKind.NODE)
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
    (ANY, "controller_id"): _presence_rule(
        "may be any broker, because every broker forwards requests to the controller"
    ),
    (ANY, "cluster_id"): _presence_rule("random"),
    (ANY, "host"): _presence_rule(_ADDRESS),
    (ANY, "port"): _presence_rule(_ADDRESS),
    (ANY, "client_host"): _presence_rule("the replay runs on another host"),
    ("DescribeAcls", "host"): FieldRule(Treatment.EXACT, "clients choose the host of an ACL"),
    ("DeleteAcls", "host"): FieldRule(Treatment.EXACT, "clients choose the host of an ACL"),
    (ANY, "log_dir"): _presence_rule(_DISK),
    (ANY, "total_bytes"): _presence_rule(_DISK),
    (ANY, "usable_bytes"): _presence_rule(_DISK),
    (ANY, "partition_size"): _ignored_rule("batch headers and compressed sizes differ"),
    (ANY, "is_cordoned"): _ignored_rule(_DISK),
    # Times.
    (ANY, "log_append_time_ms"): _presence_rule(_TIME),
    (ANY, "transaction_start_time_ms"): _presence_rule(_TIME),
    (ANY, "last_timestamp"): _presence_rule(_TIME),
    (ANY, "last_fetch_timestamp"): _ignored_rule(_TIME),
    (ANY, "last_caught_up_timestamp"): _ignored_rule(_TIME),
    (ANY, "issue_timestamp"): _presence_rule(_TIME),
    (ANY, "issue_timestamp_ms"): _presence_rule(_TIME),
    (ANY, "expiry_timestamp"): _presence_rule(_TIME),
    (ANY, "expiry_timestamp_ms"): _presence_rule(_TIME),
    (ANY, "max_timestamp"): _presence_rule(_TIME),
    (ANY, "max_timestamp_ms"): _presence_rule(_TIME),
    (ANY, "timeout_ms"): _ignored_rule("Java's admin client sends its remaining time"),
    ("Produce", "timeout_ms"): FieldRule(Treatment.EXACT, "a setting of the producer"),
    (ANY, "push_interval_ms"): _ignored_rule("has random jitter"),
    (ANY, "finalized_features_epoch"): _presence_rule("counts changes of the cluster's metadata"),
    # Bytes that only their receiver parses.
    (ANY, "assignment"): FieldRule(Treatment.EXACT, "structs are compared field by field"),
    ("SyncGroup", "assignment"): _mapped_rule(ValueKind.OPAQUE, _OPAQUE),
    ("SyncGroup", "assignments.assignment"): _mapped_rule(ValueKind.OPAQUE, _OPAQUE),
    ("JoinGroup", "protocols.metadata"): _mapped_rule(ValueKind.OPAQUE, _OPAQUE),
    ("JoinGroup", "members.metadata"): _mapped_rule(ValueKind.OPAQUE, _OPAQUE),
    (ANY, "member_assignment"): _mapped_rule(ValueKind.OPAQUE, _OPAQUE),
    (ANY, "member_metadata"): _mapped_rule(ValueKind.OPAQUE, _OPAQUE),
    (ANY, "records"): FieldRule(
        Treatment.RECORDS, "the grouping of records into responses depends on timing",
        ValueKind.RECORDS,
    ),
    ("Fetch", "responses.partitions.aborted_transactions"): _ignored_rule(
        "belongs to the records of the response, whose grouping depends on timing"
    ),
    ("Fetch", "responses.partitions.current_leader"): _ignored_rule(
        "repeats what Metadata returns"
    ),
    (ANY, "node_endpoints"): _ignored_rule("repeats what Metadata returns"),
    (ANY, "auth_bytes"): _ignored_rule("secrets, which captures do not contain"),
    (ANY, "hmac"): _ignored_rule("secrets"),
    (ANY, "token_id"): _presence_rule("random"),
}  # fmt: skip
"""(API, field) → its rule. A rule for a path has precedence over a rule for a name. A rule for one
API has precedence over a rule for all APIs."""

ROW_KEYS: Mapping[str, tuple[str, ...]] = {
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
"""Unordered lists, which Kafka fills from hash maps → the key fields of their rows. The first key
field with a value identifies a row."""

OPTIONAL_ROWS: Mapping[tuple[str, str], str] = {
    ("Fetch", "responses"): "incremental fetch responses omit unchanged partitions",
    ("Fetch", "responses.partitions"): "incremental fetch responses omit unchanged partitions",
    ("ShareFetch", "responses"): "partitions without records are omitted",
    ("ShareFetch", "responses.partitions"): "partitions without records are omitted",
}
"""(API, list) → the reason why a row without an error may occur in only one of two responses."""

COMPOSITE_KEYS = frozenset(("config_resources", "aborted_transactions"))
"""Unordered lists whose rows are identified by all their key fields together."""

UNORDERED_VALUES = frozenset(
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
"""Unordered lists of plain values."""

_EXACT = FieldRule(Treatment.EXACT, "the field has no rule")
_SET = FieldRule(Treatment.SET, "Kafka fills it from a hash map")


@cache
def field_rule(api: str, path: str) -> FieldRule:
    """Return the rule for a field of an API, given its path such as "topics.topic_id"."""
    name = path.rpartition(".")[2]
    for rule_key in ((api, path), (api, name), (ANY, name)):
        if rule_key in FIELD_RULES:
            return FIELD_RULES[rule_key]
    return _SET if name in UNORDERED_VALUES else _EXACT
