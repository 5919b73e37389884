"""Profiles of Kafka-compatible services: how they differ from a release of Kafka, with sources.

A profile is a release of Kafka and a table of rows. Each row has one fact and the source that says
so: a page of the vendor's documentation, the vendor's source code, or a published answer of the
service. What no source says is as in the release.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class SourceKind(Enum):
    """What a source is."""

    DOCUMENTATION = "documentation of the vendor"
    CODE = "source code of the vendor"
    ANSWER = "published answer of the service"


class Source(NamedTuple):
    """The origin of a row."""

    title: str
    url: str
    kind: SourceKind = SourceKind.DOCUMENTATION


class Kind(Enum):
    """What a row says about its subject."""

    API = "API"
    """`value` is the range of versions of an API, or NOT_SERVED; the subject `*` is all others."""
    DEFAULT = "default"
    """`value` is the default of a broker setting; `--config` has precedence."""
    SETTING = "topic setting"
    """`value` says whether clients may set a topic setting; the subject `*` is all others."""
    LIMIT = "limit"
    REFUSED = "refused"
    """A call that is refused with `error`: an API, or an API and a type of resource."""


NOT_SERVED: Final = "not served"
OTHERS: Final = "*"
"""The subject of a row for everything that no other row of its kind names."""

EDITABLE: Final = "editable"
AT_CREATION: Final = "only at creation"
IGNORED: Final = "ignored"
"""The setting is accepted and has no effect."""
IGNORED_AT_CREATION: Final = "ignored at creation, then refused"
FIXED: Final = "fixed"
MAXIMUM: Final = "at most "
MINIMUM: Final = "at least "

PARTITIONS_PER_TOPIC: Final = "partitions per topic"
PARTITIONS: Final = "partitions of all topics"
TOPICS: Final = "topics"
GROUPS: Final = "groups"
GROUP_ID_CHARACTERS: Final = "characters of a group id"
REPLICATION_FACTOR: Final = "replication factor"
ODD: Final = "odd"
PRODUCED_BYTES: Final = "bytes of records in a Produce request"
COMPRESSION_TYPES: Final = "compression types"

CHOSEN_ERROR: Final = "POLICY_VIOLATION"
"""Kafka's error of a policy for topics, used if the source of a row names no error."""


class Row(NamedTuple):
    """One difference from the release."""

    kind: Kind
    subject: str
    value: str
    source: Source
    error: str = ""
    """The name of the error code; empty if nothing is refused."""
    message: str = ""
    """The message of the service, with `{name}` and `{value}`; empty if no source has it."""

    def __str__(self) -> str:
        text = f"{self.kind.value} {self.subject}"
        return f"{text}: {self.value}" if self.value else text


class Profile(NamedTuple):
    """A service: the release that it resembles, and its rows."""

    name: str
    service: str
    """The service, and the variant of it that the rows describe."""
    base: str
    """The release of Kafka for everything that no row names."""
    rows: tuple[Row, ...]

    def of_kind(self, kind: Kind) -> Iterator[Row]:
        """Yield the rows of one kind."""
        return (row for row in self.rows if row.kind is kind)

    @property
    def defaults(self) -> Mapping[str, str]:
        """Broker key → default."""
        return {row.subject: row.value for row in self.of_kind(Kind.DEFAULT)}

    def limit(self, subject: str) -> Row | None:
        """Return the row with this limit; None if there is no such limit."""
        return self._find(Kind.LIMIT, subject)

    def refusal(self, call: str) -> Row | None:
        """Return the row that refuses a call; None if no row refuses it."""
        return self._find(Kind.REFUSED, call)

    def _find(self, kind: Kind, subject: str) -> Row | None:
        return next((row for row in self.of_kind(kind) if row.subject == subject), None)


def _apis(source: Source, table: str) -> Iterator[Row]:
    """Yield a row for each `name lowest-highest` in a table."""
    for entry in table.replace("\n", " ").split(","):
        name, _, versions = entry.strip().partition(" ")
        yield Row(Kind.API, name, versions, source)


def _not_served(source: Source, *names: str) -> Iterator[Row]:
    return (Row(Kind.API, name, NOT_SERVED, source) for name in names)


def _settings(value: str, source: Source, *names: str) -> Iterator[Row]:
    return (Row(Kind.SETTING, name, value, source) for name in names)


def _refused(error: str, source: Source, *calls: str) -> Iterator[Row]:
    return (Row(Kind.REFUSED, call, "", source, error) for call in calls)


def _defaults(source: Source, settings: Mapping[str, str]) -> Iterator[Row]:
    return (Row(Kind.DEFAULT, name, value, source) for name, value in settings.items())


def _profile(name: str, service: str, base: str, *parts: Iterable[Row]) -> Profile:
    return Profile(name, service, base, tuple(row for part in parts for row in part))


_MSK_GUIDE: Final = "https://docs.aws.amazon.com/msk/latest/developerguide"
_MSK_ARCHIVE: Final = "https://github.com/awsdocs/amazon-msk-developer-guide/blob"
_MSK_SETTINGS: Final = Source(
    "Configuration properties for MSK Serverless clusters", f"{_MSK_GUIDE}/serverless-config.html"
)
_MSK_QUOTA: Final = Source(
    "Amazon MSK quota, section MSK Serverless quota (state of 2023)",
    f"{_MSK_ARCHIVE}/11a4ac0d2a6ef0c24420dfd7233a76ffda2dd94d/doc_source/limits.md",
)
_MSK_ACCESS: Final = Source(
    "IAM access control, table of actions (state of 2022)",
    f"{_MSK_ARCHIVE}/4342322aacda8037f14a28fe0f999f771ad44ca0/doc_source/iam-access-control.md",
)
_MSK_ACTIONS: Final = Source(
    "Semantics of IAM authorization policy actions and resources",
    f"{_MSK_GUIDE}/kafka-actions.html",
)
_MSK_APIS: Final = Source(
    "Fix topic display error for MSK Serverless (June 2022)",
    "https://github.com/tchiotludo/akhq/pull/1113",
    SourceKind.ANSWER,
)
_MSK_LOG_DIRS: Final = Source(
    "MSK Serverless: fails to collect cluster info (February 2023)",
    "https://github.com/provectus/kafka-ui/issues/3331",
    SourceKind.ANSWER,
)
_MSK_REASSIGNMENTS: Final = Source(
    "Allow apply compatibility with MSK Serverless offering (June 2022)",
    "https://github.com/segmentio/topicctl/issues/69",
    SourceKind.ANSWER,
)
_NO_CLUSTER_PERMISSION: Final = "CLUSTER_AUTHORIZATION_FAILED"

_MSK_SERVERLESS: Final = _profile(
    "msk-serverless",
    "Amazon MSK Serverless",
    "3.3",
    _apis(
        _MSK_APIS,
        """
Produce 7-9, Fetch 10-12, ListOffsets 5-6, Metadata 7-11, OffsetCommit 6-8, OffsetFetch 5-7,
FindCoordinator 2-3, JoinGroup 4-7, Heartbeat 2-4, LeaveGroup 2-4, SyncGroup 2-5,
DescribeGroups 2-5, ListGroups 2-4, SaslHandshake 1-1, ApiVersions 2-3, CreateTopics 3-7,
DeleteTopics 3-6, InitProducerId 1-4, OffsetForLeaderEpoch 2-4, AddPartitionsToTxn 1-3,
AddOffsetsToTxn 1-3
""",
    ),
    _not_served(_MSK_APIS, "DeleteRecords"),
    _not_served(_MSK_ACTIONS, "WriteTxnMarkers"),
    _not_served(_MSK_LOG_DIRS, "DescribeLogDirs"),
    _not_served(_MSK_REASSIGNMENTS, "AlterPartitionReassignments"),
    # The actions AlterCluster, DescribeClusterDynamicConfiguration and
    # AlterClusterDynamicConfiguration do not apply to serverless clusters, so no client has the
    # permission that they stand for.
    _refused(
        _NO_CLUSTER_PERMISSION,
        _MSK_ACCESS,
        *("CreateAcls", "DeleteAcls", "ElectLeaders", "AlterUserScramCredentials"),
        *("UpdateFeatures", "UnregisterBroker", "DescribeClientQuotas", "AlterClientQuotas"),
        *("DescribeConfigs BROKER", "AlterConfigs BROKER", "IncrementalAlterConfigs BROKER"),
    ),
    _settings(
        EDITABLE,
        _MSK_SETTINGS,
        *("compression.type", "max.message.bytes", "message.timestamp.difference.max.ms"),
        *("message.timestamp.type", "retention.bytes", "retention.ms"),
    ),
    (
        Row(Kind.SETTING, "cleanup.policy", AT_CREATION, _MSK_SETTINGS, CHOSEN_ERROR),
        Row(Kind.SETTING, "max.message.bytes", f"{MAXIMUM}8388608", _MSK_SETTINGS, CHOSEN_ERROR),
        Row(Kind.SETTING, OTHERS, FIXED, _MSK_SETTINGS, CHOSEN_ERROR),
        Row(Kind.LIMIT, PARTITIONS, "120", _MSK_QUOTA, CHOSEN_ERROR),
        Row(Kind.LIMIT, GROUPS, "500", _MSK_QUOTA, "GROUP_MAX_SIZE_REACHED"),
    ),
    _defaults(_MSK_SETTINGS, {"log.retention.bytes": "268435456000"}),
    _defaults(
        _MSK_QUOTA,
        {
            "socket.request.max.bytes": "104857600",
            "fetch.max.bytes": "57671680",
            "max.connections": "1000",
            "max.connection.creation.rate": "100",
        },
    ),
)

_AZURE: Final = "https://learn.microsoft.com/azure/event-hubs"
_AZURE_SETTINGS: Final = Source(
    "Apache Kafka client configurations for Azure Event Hubs",
    f"{_AZURE}/apache-kafka-configurations",
)
_AZURE_OVERVIEW: Final = Source(
    "What is Azure Event Hubs for Apache Kafka?", f"{_AZURE}/azure-event-hubs-apache-kafka-overview"
)
_AZURE_TROUBLES: Final = Source(
    "Apache Kafka troubleshooting guide for Event Hubs",
    f"{_AZURE}/apache-kafka-troubleshooting-guide",
)
_AZURE_TIERS: Final = Source("Compare Azure Event Hubs tiers", f"{_AZURE}/compare-tiers")
_AZURE_STREAMS: Final = Source(
    "Kafka Streams for Azure Event Hubs", f"{_AZURE}/apache-kafka-streams"
)
_AZURE_APIS: Final = Source(
    "Could not agree on API version for KlifeProtocol.Messages.Produce",
    "https://github.com/oliveigah/klife/issues/13",
    SourceKind.ANSWER,
)
_AZURE_API_VERSIONS: Final = Source(
    "Consumer group stops joining against Azure Event Hubs after upgrade to v1.21.0",
    "https://github.com/twmb/franz-go/issues/1312",
    SourceKind.ANSWER,
)
_AZURE_OTHER_APIS: Final = Source(
    "Kafka producer with transaction enabled not able to publish event to event hub "
    "(September 2022)",
    "https://github.com/Azure/azure-event-hubs-for-kafka/issues/209",
    SourceKind.ANSWER,
)

_EVENTHUBS: Final = _profile(
    "eventhubs",
    "Azure Event Hubs, Standard tier",
    "3.3",
    _apis(
        _AZURE_APIS,
        """
Produce 0-7, Fetch 4-6, ListOffsets 0-8, Metadata 0-5, OffsetCommit 0-8, OffsetFetch 0-8,
FindCoordinator 0-4, JoinGroup 0-9, Heartbeat 0-4, LeaveGroup 0-5
""",
    ),
    _apis(_AZURE_API_VERSIONS, "ApiVersions 0-3"),
    _apis(_AZURE_OTHER_APIS, "DescribeConfigs 0-2, CreatePartitions 0-1, DeleteGroups 0-0"),
    _not_served(
        _AZURE_SETTINGS,
        *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "WriteTxnMarkers"),
    ),
    _not_served(
        _AZURE_OTHER_APIS,
        *("DescribeAcls", "CreateAcls", "DeleteAcls", "AlterConfigs", "AlterReplicaLogDirs"),
        *("DescribeLogDirs", "CreateDelegationToken", "RenewDelegationToken"),
        *("ExpireDelegationToken", "DescribeDelegationToken", "ElectLeaders"),
        "IncrementalAlterConfigs",
    ),
    (
        Row(Kind.LIMIT, PARTITIONS_PER_TOPIC, "32", _AZURE_TIERS, CHOSEN_ERROR),
        Row(Kind.LIMIT, TOPICS, "10", _AZURE_TIERS, CHOSEN_ERROR),
        Row(Kind.LIMIT, GROUP_ID_CHARACTERS, "256", _AZURE_TROUBLES, "INVALID_GROUP_ID"),
        # The connection is closed, so there is no error code.
        Row(Kind.LIMIT, PRODUCED_BYTES, "1046528", _AZURE_SETTINGS),
        Row(
            Kind.LIMIT,
            COMPRESSION_TYPES,
            "none",
            _AZURE_OVERVIEW,
            "UNSUPPORTED_FOR_MESSAGE_FORMAT",
            "The message format version on the broker does not support the request.",
        ),
        Row(Kind.SETTING, "retention.ms", f"{MAXIMUM}604800000", _AZURE_TIERS, CHOSEN_ERROR),
        Row(
            Kind.SETTING,
            "min.compaction.lag.ms",
            f"{MAXIMUM}172800000",
            _AZURE_STREAMS,
            CHOSEN_ERROR,
        ),
    ),
    _defaults(_AZURE_TROUBLES, {"offset.metadata.max.bytes": "1024"}),
    _defaults(_AZURE_STREAMS, {"log.message.timestamp.type": "LogAppendTime"}),
    _defaults(
        _AZURE_SETTINGS,
        {
            "connections.max.idle.ms": "240000",
            "group.min.session.timeout.ms": "6000",
            "group.max.session.timeout.ms": "300000",
        },
    ),
)

_CONFLUENT_TOPICS: Final = Source(
    "Configuration Reference for Topics in Confluent Cloud",
    "https://docs.confluent.io/cloud/current/topics/manage.html",
)
_CONFLUENT_TOPIC_RESOURCE: Final = Source(
    "confluent_kafka_topic Resource",
    "https://github.com/confluentinc/terraform-provider-confluent/blob/"
    "01dc9923d376cbf0f87e77fab08f1ef9219ed3d2/docs/resources/confluent_kafka_topic.md",
)
_CONFLUENT_CLUSTERS: Final = Source(
    "Confluent Cloud cluster and topic configuration settings (Japanese edition)",
    "https://docs.confluent.io/ja-jp/cloud/current/clusters/broker-config.html",
)
_CONFLUENT_REPLICATION: Final = Source(
    "Bug: Internal topic replication factor clashes with the policy",
    "https://github.com/confluentinc/ksql/issues/3942",
    SourceKind.ANSWER,
)
_CONFLUENT_SEGMENT_BYTES: Final = Source(
    "Kafka Confluent compatibility out of the box: segment.bytes:52428800 (May 2024)",
    "https://github.com/thingsboard/thingsboard/pull/10757",
    SourceKind.ANSWER,
)
_CONFLUENT_IGNORED: Final = Source(
    "min.cleanable.dirty.ratio should not be authorized on Confluent Cloud (March 2024)",
    "https://github.com/michelin/ns4kafka/issues/377",
    SourceKind.ANSWER,
)

_CONFLUENT_CLOUD: Final = _profile(
    "confluent-cloud",
    "Confluent Cloud, Basic and Standard clusters",
    "4.0",
    (
        Row(
            Kind.LIMIT,
            REPLICATION_FACTOR,
            "3",
            _CONFLUENT_REPLICATION,
            "POLICY_VIOLATION",
            "Topic replication factor must be 3",
        ),
    ),
    _settings(
        EDITABLE,
        _CONFLUENT_TOPIC_RESOURCE,
        *("cleanup.policy", "delete.retention.ms", "max.message.bytes", "max.compaction.lag.ms"),
        *("message.timestamp.type", "min.compaction.lag.ms", "min.insync.replicas"),
        *("retention.bytes", "retention.ms", "segment.bytes", "segment.ms"),
    ),
    # Kafka 4.0 has no message.timestamp.difference.max.ms, and schemas are not validated.
    _settings(
        IGNORED,
        _CONFLUENT_TOPIC_RESOURCE,
        *("message.timestamp.difference.max.ms", "confluent.key.schema.validation"),
        *("confluent.value.schema.validation", "confluent.key.subject.name.strategy"),
        "confluent.value.subject.name.strategy",
    ),
    _settings(IGNORED, _CONFLUENT_TOPICS, "compression.type"),
    _settings(IGNORED, _CONFLUENT_IGNORED, "min.cleanable.dirty.ratio"),
    (
        Row(
            Kind.SETTING,
            "segment.bytes",
            f"{MINIMUM}52428800",
            _CONFLUENT_SEGMENT_BYTES,
            "POLICY_VIOLATION",
            "Config property '{name}' with value '{value}' is lower than the minimum allowed value "
            "of 52428800.",
        ),
        Row(
            Kind.SETTING,
            "delete.retention.ms",
            f"{MAXIMUM}60566400000",
            _CONFLUENT_TOPICS,
            CHOSEN_ERROR,
        ),
    ),
    _refused(
        CHOSEN_ERROR, _CONFLUENT_CLUSTERS, "AlterConfigs BROKER", "IncrementalAlterConfigs BROKER"
    ),
    _defaults(_CONFLUENT_TOPICS, {"default.replication.factor": "3"}),
    _defaults(
        _CONFLUENT_TOPIC_RESOURCE,
        {
            "message.max.bytes": "2097164",
            "min.insync.replicas": "2",
            "log.segment.bytes": "104857600",
            "log.roll.ms": "604800000",
        },
    ),
)


def _redpanda_code(title: str, path: str) -> Source:
    return Source(
        f"Redpanda 24.3.2, {title}",
        f"https://github.com/redpanda-data/redpanda/blob/v24.3.2/src/v/{path}",
        SourceKind.CODE,
    )


_REDPANDA_APIS: Final = _redpanda_code(
    "handlers of Kafka's APIs", "kafka/server/handlers/handlers.h"
)
_REDPANDA_SETTINGS: Final = _redpanda_code("configuration.cc", "config/configuration.cc")
_REDPANDA_CREATION: Final = _redpanda_code(
    "create_topics.cc", "kafka/server/handlers/create_topics.cc"
)
_REDPANDA_VALIDATORS: Final = _redpanda_code(
    "validators.h", "kafka/server/handlers/topics/validators.h"
)
_REDPANDA_TOPIC_TYPES: Final = _redpanda_code(
    "topics/types.h", "kafka/server/handlers/topics/types.h"
)
_REDPANDA_CHANGES: Final = _redpanda_code(
    "incremental_alter_configs.cc", "kafka/server/handlers/incremental_alter_configs.cc"
)
_REDPANDA_BROKER_CHANGES: Final = _redpanda_code(
    "alter_configs.cc", "kafka/server/handlers/alter_configs.cc"
)

_REDPANDA: Final = _profile(
    "redpanda",
    "Redpanda 24.3",
    "3.3",
    _apis(
        _REDPANDA_APIS,
        """
Produce 0-7, Fetch 4-11, ListOffsets 0-4, Metadata 0-8, OffsetCommit 1-8, OffsetFetch 1-7,
FindCoordinator 0-3, JoinGroup 0-6, Heartbeat 0-4, LeaveGroup 0-4, SyncGroup 0-4,
DescribeGroups 0-5, ListGroups 0-4, SaslHandshake 0-1, ApiVersions 0-3, CreateTopics 0-6,
DeleteTopics 0-5, DeleteRecords 0-2, InitProducerId 0-3, OffsetForLeaderEpoch 0-4,
AddPartitionsToTxn 0-3, AddOffsetsToTxn 0-1, EndTxn 0-3, TxnOffsetCommit 0-3, DescribeAcls 0-2,
CreateAcls 0-2, DeleteAcls 0-2, DescribeConfigs 0-4, AlterConfigs 0-2, DescribeLogDirs 0-2,
SaslAuthenticate 0-2, CreatePartitions 0-3, DeleteGroups 0-2, IncrementalAlterConfigs 0-1,
AlterPartitionReassignments 0-0, ListPartitionReassignments 0-0, OffsetDelete 0-0,
DescribeClientQuotas 0-1, AlterClientQuotas 0-1, DescribeProducers 0-0, DescribeTransactions 0-0,
ListTransactions 0-0
""",
    ),
    _not_served(_REDPANDA_APIS, OTHERS),
    (
        Row(
            Kind.LIMIT,
            REPLICATION_FACTOR,
            ODD,
            _REDPANDA_VALIDATORS,
            "INVALID_REPLICATION_FACTOR",
            "Replication factor must be an odd number - 1,3,5,7,9,11...",
        ),
        Row(
            Kind.REFUSED,
            "AlterConfigs BROKER",
            "",
            _REDPANDA_BROKER_CHANGES,
            "INVALID_CONFIG",
            "changing broker properties isn't supported via this API. Try using kafka incremental "
            "config API or redpanda admin API.",
        ),
    ),
    _settings(
        EDITABLE,
        _REDPANDA_CREATION,
        *("compression.type", "cleanup.policy", "message.timestamp.type", "segment.bytes"),
        *("retention.bytes", "retention.ms", "max.message.bytes", "segment.ms"),
        *("flush.ms", "delete.retention.ms"),
    ),
    # They configure parts of Redpanda that are not emulated.
    _settings(
        IGNORED,
        _REDPANDA_CREATION,
        *("compaction.strategy", "flush.bytes", "write.caching", "redpanda.leaders.preference"),
        *("redpanda.remote.read", "redpanda.remote.write", "redpanda.remote.delete"),
        *("redpanda.remote.recovery", "redpanda.remote.readreplica", "redpanda.iceberg.mode"),
        *("redpanda.iceberg.delete", "retention.local.target.bytes", "retention.local.target.ms"),
        *("initial.retention.local.target.bytes", "initial.retention.local.target.ms"),
    ),
    _settings(
        IGNORED,
        _REDPANDA_TOPIC_TYPES,
        *("unclean.leader.election.enable", "message.downconversion.enable"),
        *("segment.index.bytes", "segment.jitter.ms", "min.insync.replicas"),
        *("min.compaction.lag.ms", "min.cleanable.dirty.ratio"),
        *("message.timestamp.difference.max.ms", "message.format.version"),
        *("max.compaction.lag.ms", "leader.replication.throttled.replicas"),
        *("index.interval.bytes", "follower.replication.throttled.replicas", "flush.messages"),
        *("file.delete.delay.ms", "preallocate"),
    ),
    (
        Row(
            Kind.SETTING,
            OTHERS,
            IGNORED_AT_CREATION,
            _REDPANDA_CHANGES,
            "INVALID_CONFIG",
            "invalid topic property: {name}",
        ),
    ),
    _defaults(
        _REDPANDA_SETTINGS,
        {
            "socket.request.max.bytes": "104857600",
            "message.max.bytes": "1048576",
            "fetch.max.bytes": "57671680",
            "group.min.session.timeout.ms": "6000",
            "group.max.session.timeout.ms": "300000",
            "transaction.max.timeout.ms": "900000",
            "auto.create.topics.enable": "false",
            "num.partitions": "1",
            "default.replication.factor": "1",
            "log.segment.bytes": "134217728",
            "log.roll.ms": "1209600000",
            "log.retention.ms": "604800000",
        },
    ),
)

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile for profile in (_MSK_SERVERLESS, _EVENTHUBS, _CONFLUENT_CLOUD, _REDPANDA)
}
"""Name → profile."""
