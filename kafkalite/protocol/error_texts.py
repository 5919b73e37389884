"""Error texts that programs compare, each with the programs that compare it.

An exception of Kafka's Java client contains the broker's message, and tests, tools and applications
compare some of these messages. Such a text belongs to the protocol like an error code, so each of
these equals Kafka's. All other messages are worded by kafkalite.

Every response with one of these texts takes it from here. The differential tests compare these
messages exactly; of all others they check only whether there is one.
"""

from __future__ import annotations

from enum import Enum

from kafkalite.protocol.error_codes import ErrorCode

_ADMIN = "kafka.api.PlaintextAdminIntegrationTest"
_CONSUMER_HEARTBEAT = "kafka.server.ConsumerGroupHeartbeatRequestTest"
_STREAMS_HEARTBEAT = "kafka.server.StreamsGroupHeartbeatRequestTest"
_MIGRATION = "kafka.server.ConsumerProtocolMigrationTest"
_CREATE_TOPICS = "kafka.server.CreateTopicsRequestTest"
_CREATE_TOPICS_POLICY = "org.apache.kafka.clients.CreateTopicsRequestWithPolicyTest"
_ADD_PARTITIONS = "kafka.admin.AddPartitionsTest"
_CONFIG_COMMAND = "org.apache.kafka.tools.ConfigCommandIntegrationTest"
_DELETE_GROUPS = "org.apache.kafka.tools.consumer.group.DeleteConsumerGroupsTest"
_REPARTITION = "org.apache.kafka.streams.integration.KStreamRepartitionIntegrationTest"
_STREAM_THREAD = "org.apache.kafka.streams.processor.internals.StreamThread"
_UPGRADE = "Cannot upgrade classic group {group_id} to consumer group because "
_ASSIGNMENT = "The manual partition assignment includes "
_REJOIN = "The member must abandon all its partitions and rejoin."
_KNOWN_EPOCH = "than the one known by the group coordinator ({member_epoch})"


class ErrorText(Enum):
    """One text as a template with `{name}` for values, and the programs that compare it."""

    template: str
    compared_by: tuple[str, ...]

    def __init__(self, template: str, *compared_by: str) -> None:
        self.template = template
        self.compared_by = compared_by

    def format(self, **values: object) -> str:
        """Return the text with these values."""
        return self.template.format(**values)

    # Groups

    GROUP_NOT_FOUND = (
        "Group {group_id} not found.",
        _ADMIN,
        "kafka.api.GroupCoordinatorIntegrationTest",
        "kafka.server.DescribeGroupsRequestTest",
        "kafka.server.DeleteGroupsRequestTest",
        "org.apache.kafka.tools.consumer.group.DescribeConsumerGroupTest",
        "org.apache.kafka.tools.consumer.group.ShareGroupCommandTest",
        "org.apache.kafka.tools.streams.DescribeStreamsGroupTest",
    )
    GROUP_HAS_ANOTHER_TYPE = ("Group {group_id} is not a {group_type} group.", _ADMIN)
    FIELD_IS_EMPTY = ("{field} can't be empty.", _CONSUMER_HEARTBEAT, _STREAMS_HEARTBEAT)
    UNKNOWN_MEMBER = (
        "Member {member_id} is not a member of group {group_id}.",
        _STREAMS_HEARTBEAT,
    )
    GREATER_EPOCH = (
        (
            "The {group_type} group member has a greater member epoch ({received_epoch}) "
            f"{_KNOWN_EPOCH}. {_REJOIN}"
        ),
        _STREAMS_HEARTBEAT,
    )
    SMALLER_EPOCH = (
        (
            "The {group_type} group member has a smaller member epoch ({received_epoch}) "
            f"{_KNOWN_EPOCH}. {_REJOIN}"
        ),
        _STREAMS_HEARTBEAT,
    )
    SMALLER_SHARE_EPOCH = (
        (
            "The share group member has a smaller member epoch ({received_epoch}) "
            f"{_KNOWN_EPOCH}, and it does not match the previous member epoch "
            f"({{previous_member_epoch}}). {_REJOIN}"
        ),
        _STREAMS_HEARTBEAT,
    )
    UNSUPPORTED_ASSIGNOR = (
        "ServerAssignor {assignor} is not supported. Supported assignors: {supported}.",
        "kafka.api.PlaintextConsumerAssignorsTest",
    )

    # The upgrade of a classic group

    UPGRADE_IS_DISABLED = (f"{_UPGRADE}online upgrade is disabled.", _MIGRATION)
    UPGRADE_OF_ANOTHER_PROTOCOL = (
        f"{_UPGRADE}the group does not use the consumer embedded protocol.",
        _MIGRATION,
    )
    UPGRADE_IS_TOO_LARGE = (
        f"{_UPGRADE}the group size exceeds the consumer group maximum size.",
        _MIGRATION,
    )
    UPGRADE_IS_MALFORMED = (
        f"{_UPGRADE}the embedded consumer protocol is malformed.",
        _MIGRATION,
    )
    UPGRADE_OF_CUSTOM_ASSIGNOR = (
        (
            f"{_UPGRADE}an unsupported custom assignor is in use. Please refer to the "
            "documentation or switch to a default assignor before re-attempting the upgrade."
        ),
        _MIGRATION,
    )

    # Topics of a streams group

    SOURCE_TOPICS_ARE_MISSING = (
        "Source topics {topics} are missing.",
        _STREAMS_HEARTBEAT,
        _STREAM_THREAD,
    )
    REPARTITION_COUNT_DIFFERS = (
        (
            "Number of partitions [{count}] of repartition topic [{topic}] doesn't match number of "
            "partitions [{source_count}] of the source topic."
        ),
        _REPARTITION,
        _STREAM_THREAD,
    )
    PARTITION_COUNTS_DIFFER = (
        "Following topics do not have the same number of partitions: [{{{counts}}}]",
        _STREAM_THREAD,
    )

    # Topics

    TOPIC_EXISTS = ("Topic '{topic}' already exists.", _CREATE_TOPICS, _CREATE_TOPICS_POLICY)
    METADATA_TOPIC_IS_INTERNAL = (
        "Creation of internal topic __cluster_metadata is prohibited.",
        _CREATE_TOPICS,
    )
    TOO_MANY_PARTITIONS = (
        "Excessively large number of partitions per request.",
        "org.apache.kafka.server.KRaftClusterTest",
    )
    TOO_LARGE_BATCH = (
        "Unable to perform excessively large batch operation.",
        "org.apache.kafka.server.KRaftClusterTest",
    )
    INVALID_REPLICATION_FACTOR = (
        "Replication factor must be larger than 0, or -1 to use the default value.",
        _CREATE_TOPICS_POLICY,
    )
    INVALID_PARTITION_COUNT = (
        "Number of partitions was set to an invalid non-positive value.",
        _CREATE_TOPICS_POLICY,
    )
    TOO_FEW_BROKERS = (
        (
            "Unable to replicate the partition {replication_factor} time(s): The target "
            "replication factor of {replication_factor} cannot be reached because only {brokers} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        ),
        _CREATE_TOPICS_POLICY,
    )
    SAME_PARTITION_COUNT = ("Topic already has {count} partition(s).", _ADMIN)
    NO_INCREASE_OF_PARTITIONS = (
        (
            "The topic {topic} currently has {count} partition(s); {requested} would not be an "
            "increase."
        ),
        _ADMIN,
    )
    ASSIGNMENTS_MISCOUNTED = (
        (
            "Attempted to add {added} additional partition(s), but only {assignments} "
            "assignment(s) were specified."
        ),
        _ADMIN,
        _ADD_PARTITIONS,
    )
    ASSIGNMENT_HAS_GAPS = (
        "partitions should be a consecutive 0-based integer sequence",
        _ADD_PARTITIONS,
    )
    ASSIGNMENT_OF_UNKNOWN_BROKER = (
        f"{_ASSIGNMENT}broker {{broker_id}}, but no such broker is registered.",
        _ADMIN,
    )
    ASSIGNMENT_OF_CORDONED_BROKER = (
        f"{_ASSIGNMENT}broker {{broker_id}}, but all its log directories are cordoned.",
        _ADMIN,
    )
    ASSIGNMENT_OF_REPEATED_BROKER = (
        f"{_ASSIGNMENT}the broker {{broker_id}} more than once.",
        _ADMIN,
    )
    ASSIGNMENT_OF_ANOTHER_SIZE = (
        (
            f"{_ASSIGNMENT}a partition with {{replicas}} replica(s), but this is not consistent "
            "with previous partitions, which have {replication_factor} replica(s)."
        ),
        _ADMIN,
    )
    NO_SUCH_TOPIC = ("No such topic as {topic}", _ADMIN)

    # Configurations

    REPEATED_CONFIG = ("Error due to duplicate config keys", _ADMIN)
    NULL_CONFIG = ("Null value not supported for : {names}", _ADMIN)
    NULL_TOPIC_CONFIG = ("Null value not supported for topic configs: {names}", _ADMIN)
    CONFIG_IS_NO_LIST = ("Can't {operation} to key {name} because its type is not LIST.", _ADMIN)
    CONFIG_IS_NOT_DYNAMIC = (
        "Cannot update these configs dynamically: [{names}]",
        _CONFIG_COMMAND,
    )
    CONFIG_IS_NO_CHOICE = (
        "Invalid value {value} for configuration {name}: String must be one of: {choices}",
        _ADMIN,
    )
    CONFIG_IS_TOO_LARGE = (
        "Invalid value {value} for configuration {name}: Value must be no more than {most}",
        _ADMIN,
    )
    CONFIG_IS_BELOW_ANOTHER = ("{name} must be greater than or equal to {other}", _ADMIN)

    # Everything else

    WRONG_ENDPOINT_TYPE = (
        (
            "The request was sent to an endpoint of type {actual}, but we wanted an endpoint of "
            "type {requested}"
        ),
        "org.apache.kafka.server.BootstrapControllersIntegrationTest",
    )
    INVALID_TIMESTAMP = (
        "One or more records have been rejected due to invalid timestamp",
        "kafka.server.ProduceRequestTest",
    )

    # Default messages of error codes, which Java programs know as constants of their client

    TOPIC_OR_PARTITION_IS_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message, _ADMIN)
    PREFERRED_LEADER_IS_NOT_AVAILABLE = (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE.message,
        _ADMIN,
    )
    GROUP_ID_IS_NOT_FOUND = (ErrorCode.GROUP_ID_NOT_FOUND.message, _DELETE_GROUPS)
    GROUP_IS_NOT_EMPTY = (ErrorCode.NON_EMPTY_GROUP.message, _DELETE_GROUPS)
