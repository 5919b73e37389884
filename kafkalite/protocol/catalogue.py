"""Properties of every API: one row per API, which all other packages read.

A row has the entities that a request names and the fields that contain them, the node that answers,
the changes that a request makes, its permissions and quota, the fields that are secret, the fields
that brokers generate, and the fields with error codes. Permissions are those of Kafka's
documentation ("Operations and Resources on Protocols"), or of KafkaApis and ControllerApis if they
are not documented.

A place is a path of attributes, such as "topics.partitions.partition_index"; all elements of lists
on the path are visited. "key?key_type=1" applies only if the field `key_type` of the same struct
has this value. Several places are separated by spaces. If a version does not have a
field, the field has its default value, so one row is valid for all versions.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.protocol.message import Message

    Reader = Callable[[Any], Iterator[Any]]


class Fields(NamedTuple):
    """Places in the requests or in the responses of an API."""

    group: str = ""
    member: str = ""
    instance: str = ""
    """Static members: group.instance.id."""
    transactional_id: str = ""
    producer_id: str = ""
    topic: str = ""
    """Names of topics."""
    topic_id: str = ""
    partition: str = ""
    """Indexes of partitions, in or below the struct with the topic."""
    broker: str = ""
    config_resource: str = ""
    """Names of the topics, brokers or groups whose settings are described or altered."""
    user: str = ""
    session: str = ""
    """Epochs of fetch sessions; a request in a session depends on earlier requests."""
    max_wait_ms: str = ""
    """Maximum time before the broker answers."""
    records: str = ""
    """Record batches: the data of clients."""
    credentials: str = ""
    """Values that a capture must not contain."""
    setting: str = ""
    """Lists of settings with a `name` and a `value`, some of them secret."""

    def names_of(self, resource: Resource) -> Sequence[str]:
        """Return the places of the names of a type of resources."""
        places: str = getattr(self, resource.name.lower(), "")
        return places.split()


class AnsweringNode(Enum):
    """The node that answers a request."""

    ANY = "any broker"
    EACH = "each broker for its own data; a client asks all of them"
    CONTROLLER = "the controller; brokers forward the request"
    PARTITION_LEADER = "the leader of the partitions"
    GROUP_COORDINATOR = "the coordinator of the group"
    TRANSACTION_COORDINATOR = "the coordinator of the transactional id"
    SHARE_COORDINATOR = "the share coordinator of the group's partitions"


class ChangedState(Enum):
    """The state that a request changes; the value is a description."""

    NOTHING = "nothing: it reads"
    RECORDS = "records of partitions"
    OFFSETS = "committed offsets"
    MEMBERS = "members of groups and their assignments"
    GROUPS = "groups, which are deleted"
    TRANSACTIONS = "transactions"
    PRODUCERS = "producer ids and epochs"
    SHARE_STATE = "records that share groups acquired and acknowledged"
    TOPICS = "topics and their numbers of partitions"
    CONFIGS = "settings"
    LEADERS = "leaders of partitions"
    REPLICAS = "locations of replicas"
    BROKERS = "brokers and controllers"
    FEATURES = "finalized features"
    SECURITY = "ACLs, credentials, tokens and quotas"


class When(Enum):
    """The requests of an API that need a permission; the value is a description."""

    ALWAYS = "in all"
    FOLLOWER = "if a replica sends the request instead of a client"
    BROKER = "if another broker sends the request instead of a client"
    SHARE_KEY = "to find the coordinator of a share group's state"
    CREATES_TOPIC = "if a topic would be created"
    SHOWS_CONFIGS = "for the settings in the response"
    BY_TOPIC_ID = "if topics are named by ids, before their names are resolved"
    IDEMPOTENT_ONLY = "if there is no transactional id"
    TWO_PHASE_COMMIT = "if two-phase commit is enabled"
    OTHER_CONFIGS = "for settings of brokers, loggers and client metrics"
    AUTHORIZED_OPERATIONS = "for the authorized operations in the response"
    FOR_OTHER_USER = "if the owner is not the requester"
    LISTED = "for each that the response would list"


class Permission(NamedTuple):
    """An operation on a resource.

    If the request names several resources of this type, the operation applies to each of them.
    """

    operation: Operation
    resource: Resource
    when: When = When.ALWAYS


class Quota(Enum):
    """The quota that a request counts against, in addition to the quota of request time."""

    REQUEST = "request"
    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    CONTROLLER_MUTATION = "controller_mutation_rate"
    EXEMPT = "none, and no quota of request time"


class GeneratedValue(Enum):
    """Values that a broker generates. Clients send them in later requests."""

    MEMBER = "member id"
    GROUP_EPOCH = "generation or epoch of a group"
    PRODUCER_ID = "producer id"
    PRODUCER_EPOCH = "producer epoch"
    TOPIC_ID = "topic id"
    LEADER_EPOCH = "leader epoch"
    INCARNATION_EPOCH = "partition epoch of KIP-232"
    OFFSET = "offset"
    SESSION = "fetch session"
    CLIENT_INSTANCE = "client instance"
    SUBSCRIPTION = "telemetry subscription"


class TopicPartition(NamedTuple):
    """A partition in a message."""

    topic: str | bytes
    """The name; the id if there is no name."""
    partition: int


class ErrorPlace(Enum):
    """The fields that contain an error for a whole request."""

    REQUEST = "the fields of the response for the whole request"
    ROWS = "the fields of every row"
    BOTH = "both"


class Position(Enum):
    """The position of refused rows in a response."""

    FIRST = "before the answers to other rows"
    LAST = "after the answers to other rows"
    REQUESTED = "in the order of the request"


class Rows(NamedTuple):
    """The lists in requests whose rows are answered one by one, and the lists with the answers.

    Lists inside the rows of other lists come after a dot: "topics.partitions". An answer repeats
    `copied` fields of its row. If they have different names, "partition_index=partition" has that
    in the answer first. "partition_index=" is for rows that are plain values. An error is in the
    outermost of these lists whose rows have a field for it.
    """

    requested: str
    answered: str
    copied: tuple[str, ...]
    """The fields in the rows of each list."""
    error_place: ErrorPlace = ErrorPlace.ROWS
    position: Position = Position.LAST
    """The position of rows that are refused before the handler answers the others."""


class RefusalText(Enum):
    """The error message of a refused request or row, if the response has a field for it."""

    GIVEN = "the message of the error, if it has one"
    STANDARD = "the message of the error, or else the standard message of its code"
    STANDARD_IF_EXPECTED = "the same, but none for UNKNOWN_SERVER_ERROR"
    NOT_NULL = "the message of the error, or else an empty text"
    NONE = "none"


NO_PERMISSION: Final = ""
"""The permissions of an API that every client may use."""


class Row(NamedTuple):
    """The properties of one API."""

    node: AnsweringNode
    changes: ChangedState
    permissions: str
    """Permissions such as "READ GROUP, CREATE CLUSTER if CREATES_TOPIC | CREATE TOPIC".

    All of those that commas separate are required, and one of the alternatives between bars. The
    words are an `Operation`, a `Resource` and, after "if", a name of `When`.
    """
    quota: Quota = Quota.REQUEST
    quota_refusals_since: int | None = None
    """The first version whose rows are refused with THROTTLING_QUOTA_EXCEEDED beyond the quota.

    Rows of earlier versions only count, and the client is throttled (KIP-599).
    """
    request: Fields = Fields()
    response: Fields = Fields()
    rows: Rows | None = None
    refused: Mapping[str, object] = {}
    """Places in a response → the value in a refusal, if it is not the default of the field."""
    refusal_text: RefusalText = RefusalText.GIVEN
    listed: str = ""
    """Places in a response of the names that a permission "if LISTED" protects.

    Empty for all names of its type in `response`.
    """
    errors: str = ""
    """Places of error codes in a response."""
    messages: str = ""
    """Places of error messages in a response."""
    generates: Mapping[GeneratedValue, str] = {}
    """Places of values in a response that the broker generated."""
    endpoints: str = ""
    """Places of hosts in a response; the struct of a host also has a `port` and the node's id."""
    endpoints_since: int = 0
    """The first version whose responses contain `endpoints`."""
    is_polled: bool = False
    """Whether clients send requests of this API periodically."""
    is_discovery: bool = False
    """Whether clients send requests on any connection to discover versions, nodes and topics."""
    is_authentication: bool = False

    @property
    def access(self) -> tuple[tuple[Permission, ...], ...]:
        """The permissions: every element is required, and has alternatives."""
        return _parse_permissions(self.permissions)

    def refuses_beyond_quota(self, version: int) -> bool:
        """Return whether rows of a version are refused beyond the quota."""
        since = self.quota_refusals_since
        return since is not None and version >= since

    @property
    def is_write(self) -> bool:
        """Whether a request changes anything."""
        return self.changes is not ChangedState.NOTHING


@cache
def _parse_permissions(text: str) -> tuple[tuple[Permission, ...], ...]:
    return tuple(
        tuple(_parse_permission(*each.split()) for each in required.split("|"))
        for required in text.split(",")
        if required
    )


def _parse_permission(operation: str, resource: str, mark: str = "", when: str = "") -> Permission:
    condition = When[when] if mark == "if" else When.ALWAYS
    return Permission(Operation[operation], Resource[resource], condition)


ROWS: Final[Mapping[int, Row]] = {
    ApiKey.PRODUCE: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.RECORDS,
        "WRITE TRANSACTIONAL_ID, WRITE TOPIC",
        quota=Quota.PRODUCE,
        request=Fields(
            transactional_id="transactional_id",
            topic="topic_data.name",
            topic_id="topic_data.topic_id",
            partition="topic_data.partition_data.index",
            records="topic_data.partition_data.records",
        ),
        response=Fields(
            topic="responses.name",
            topic_id="responses.topic_id",
            partition="responses.partition_responses.index",
            broker=(
                "responses.partition_responses.current_leader.leader_id node_endpoints.node_id"
            ),
        ),
        rows=Rows(
            "topic_data.partition_data", "responses.partition_responses", ("name topic_id", "index")
        ),
        refused={"responses.partition_responses.base_offset": -1},
        errors="responses.partition_responses.error_code",
        messages=(
            "responses.partition_responses.record_errors.batch_index_error_message "
            "responses.partition_responses.error_message"
        ),
        generates={GeneratedValue.OFFSET: "responses.partition_responses.base_offset"},
        endpoints="node_endpoints.host",
        endpoints_since=10,
    ),
    ApiKey.FETCH: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.NOTHING,
        "READ TOPIC | CLUSTER_ACTION CLUSTER if FOLLOWER",
        quota=Quota.FETCH,
        request=Fields(
            topic="topics.topic forgotten_topics_data.topic",
            topic_id="topics.topic_id forgotten_topics_data.topic_id",
            partition="topics.partitions.partition forgotten_topics_data.partitions",
            broker="replica_id replica_state.replica_id",
            session="session_epoch",
            max_wait_ms="max_wait_ms",
        ),
        response=Fields(
            producer_id="responses.partitions.aborted_transactions.producer_id",
            topic="responses.topic",
            topic_id="responses.topic_id",
            partition="responses.partitions.partition_index",
            broker=(
                "responses.partitions.current_leader.leader_id "
                "responses.partitions.preferred_read_replica "
                "node_endpoints.node_id"
            ),
            records="responses.partitions.records",
        ),
        rows=Rows(
            "topics.partitions",
            "responses.partitions",
            ("topic topic_id", "partition_index=partition"),
            ErrorPlace.BOTH,
        ),
        refused={"responses.partitions.high_watermark": -1},
        errors="error_code responses.partitions.error_code",
        generates={GeneratedValue.SESSION: "session_id"},
        endpoints="node_endpoints.host",
        endpoints_since=16,
        is_polled=True,
    ),
    ApiKey.LIST_OFFSETS: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.NOTHING,
        "DESCRIBE TOPIC",
        request=Fields(
            topic="topics.name", partition="topics.partitions.partition_index", broker="replica_id"
        ),
        response=Fields(topic="topics.name", partition="topics.partitions.partition_index"),
        rows=Rows("topics.partitions", "topics.partitions", ("name", "partition_index")),
        errors="topics.partitions.error_code",
    ),
    ApiKey.METADATA: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE TOPIC, CREATE CLUSTER if CREATES_TOPIC | CREATE TOPIC if CREATES_TOPIC",
        request=Fields(topic="topics.name", topic_id="topics.topic_id"),
        response=Fields(
            topic="topics.name",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index",
            broker=(
                "brokers.node_id controller_id topics.partitions.leader_id "
                "topics.partitions.replica_nodes topics.partitions.isr_nodes "
                "topics.partitions.offline_replicas"
            ),
        ),
        rows=Rows("topics", "topics", ("name topic_id",), ErrorPlace.BOTH),
        errors="topics.error_code topics.partitions.error_code error_code",
        generates={
            GeneratedValue.TOPIC_ID: "topics.topic_id",
            GeneratedValue.LEADER_EPOCH: "topics.partitions.leader_epoch",
            GeneratedValue.INCARNATION_EPOCH: "topics.partitions.incarnation_epoch",
        },
        endpoints="brokers.host",
        is_polled=True,
        is_discovery=True,
    ),
    ApiKey.OFFSET_COMMIT: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.OFFSETS,
        "READ GROUP, READ TOPIC",
        request=Fields(
            group="group_id",
            member="member_id",
            instance="group_instance_id",
            topic="topics.name",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index",
        ),
        response=Fields(
            topic="topics.name",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index",
        ),
        rows=Rows(
            "topics.partitions",
            "topics.partitions",
            ("name topic_id", "partition_index"),
            position=Position.FIRST,
        ),
        errors="topics.partitions.error_code",
    ),
    ApiKey.OFFSET_FETCH: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE GROUP, DESCRIBE TOPIC",
        request=Fields(
            group="group_id groups.group_id",
            member="groups.member_id",
            topic="topics.name groups.topics.name",
            topic_id="groups.topics.topic_id",
            partition="topics.partition_indexes groups.topics.partition_indexes",
        ),
        response=Fields(
            group="groups.group_id",
            topic="topics.name groups.topics.name",
            topic_id="groups.topics.topic_id",
            partition=(
                "topics.partitions.partition_index groups.topics.partitions.partition_index"
            ),
        ),
        rows=Rows(
            "groups.topics.partition_indexes",
            "groups.topics.partitions",
            ("group_id", "name topic_id", "partition_index="),
        ),
        refused={"groups.topics.partitions.committed_offset": -1},
        errors=(
            "topics.partitions.error_code error_code "
            "groups.topics.partitions.error_code groups.error_code"
        ),
    ),
    ApiKey.FIND_COORDINATOR: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID, CLUSTER_ACTION CLUSTER if SHARE_KEY",
        request=Fields(
            group="key?key_type=0 coordinator_keys?key_type=0",
            transactional_id="key?key_type=1 coordinator_keys?key_type=1",
        ),
        response=Fields(broker="node_id coordinators.node_id"),
        rows=Rows("coordinator_keys", "coordinators", ("key=",), position=Position.REQUESTED),
        refused={"coordinators.node_id": -1, "coordinators.port": -1},
        refusal_text=RefusalText.NOT_NULL,
        errors="error_code coordinators.error_code",
        messages="error_message coordinators.error_message",
        endpoints="host coordinators.host",
        is_discovery=True,
    ),
    ApiKey.JOIN_GROUP: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.MEMBERS,
        "READ GROUP",
        request=Fields(group="group_id", member="member_id", instance="group_instance_id"),
        response=Fields(
            member="leader member_id members.member_id", instance="members.group_instance_id"
        ),
        errors="error_code",
        generates={GeneratedValue.MEMBER: "member_id", GeneratedValue.GROUP_EPOCH: "generation_id"},
    ),
    ApiKey.HEARTBEAT: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "READ GROUP",
        request=Fields(group="group_id", member="member_id", instance="group_instance_id"),
        errors="error_code",
        is_polled=True,
    ),
    ApiKey.LEAVE_GROUP: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.MEMBERS,
        "READ GROUP",
        request=Fields(
            group="group_id",
            member="member_id members.member_id",
            instance="members.group_instance_id",
        ),
        response=Fields(member="members.member_id", instance="members.group_instance_id"),
        rows=Rows("members", "members", ("member_id group_instance_id",), ErrorPlace.REQUEST),
        errors="error_code members.error_code",
    ),
    ApiKey.SYNC_GROUP: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.MEMBERS,
        "READ GROUP",
        request=Fields(
            group="group_id", member="member_id assignments.member_id", instance="group_instance_id"
        ),
        errors="error_code",
    ),
    ApiKey.DESCRIBE_GROUPS: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE GROUP",
        request=Fields(group="groups"),
        response=Fields(
            group="groups.group_id",
            member="groups.members.member_id",
            instance="groups.members.group_instance_id",
        ),
        rows=Rows("groups", "groups", ("group_id=",), position=Position.FIRST),
        refusal_text=RefusalText.NONE,
        errors="groups.error_code",
        messages="groups.error_message",
    ),
    ApiKey.LIST_GROUPS: Row(
        AnsweringNode.EACH,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER | DESCRIBE GROUP if LISTED",
        response=Fields(group="groups.group_id"),
        errors="error_code",
    ),
    ApiKey.SASL_HANDSHAKE: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        NO_PERMISSION,
        quota=Quota.EXEMPT,
        errors="error_code",
        is_authentication=True,
    ),
    ApiKey.API_VERSIONS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        NO_PERMISSION,
        errors="error_code",
        is_discovery=True,
    ),
    ApiKey.CREATE_TOPICS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.TOPICS,
        "CREATE TOPIC | CREATE CLUSTER, DESCRIBE_CONFIGS TOPIC if SHOWS_CONFIGS",
        quota=Quota.CONTROLLER_MUTATION,
        quota_refusals_since=6,
        request=Fields(
            topic="topics.name",
            partition="topics.assignments.partition_index",
            broker="topics.assignments.broker_ids",
            setting="topics.configs",
        ),
        response=Fields(topic="topics.name", topic_id="topics.topic_id", setting="topics.configs"),
        rows=Rows("topics", "topics", ("name",)),
        errors="topics.error_code topics.topic_config_error_code",
        messages="topics.error_message",
        generates={GeneratedValue.TOPIC_ID: "topics.topic_id"},
    ),
    ApiKey.DELETE_TOPICS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.TOPICS,
        "DELETE TOPIC | DELETE CLUSTER, DESCRIBE TOPIC if BY_TOPIC_ID",
        quota=Quota.CONTROLLER_MUTATION,
        quota_refusals_since=5,
        request=Fields(topic="topics.name topic_names", topic_id="topics.topic_id"),
        response=Fields(topic="responses.name", topic_id="responses.topic_id"),
        rows=Rows("topics", "responses", ("name topic_id",)),
        errors="responses.error_code",
        messages="responses.error_message",
    ),
    ApiKey.DELETE_RECORDS: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.RECORDS,
        "DELETE TOPIC",
        request=Fields(topic="topics.name", partition="topics.partitions.partition_index"),
        response=Fields(topic="topics.name", partition="topics.partitions.partition_index"),
        rows=Rows("topics.partitions", "topics.partitions", ("name", "partition_index")),
        refused={"topics.partitions.low_watermark": -1},
        errors="topics.partitions.error_code",
    ),
    ApiKey.INIT_PRODUCER_ID: Row(
        AnsweringNode.TRANSACTION_COORDINATOR,
        ChangedState.PRODUCERS,
        (
            "WRITE TRANSACTIONAL_ID, "
            "IDEMPOTENT_WRITE CLUSTER if IDEMPOTENT_ONLY | WRITE TOPIC if IDEMPOTENT_ONLY, "
            "TWO_PHASE_COMMIT TRANSACTIONAL_ID if TWO_PHASE_COMMIT"
        ),
        request=Fields(transactional_id="transactional_id", producer_id="producer_id"),
        response=Fields(producer_id="producer_id ongoing_txn_producer_id"),
        refused={"producer_epoch": -1},
        errors="error_code",
        generates={
            GeneratedValue.PRODUCER_ID: "producer_id",
            GeneratedValue.PRODUCER_EPOCH: "producer_epoch",
        },
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.NOTHING,
        "DESCRIBE TOPIC | CLUSTER_ACTION CLUSTER",
        request=Fields(
            topic="topics.topic", partition="topics.partitions.partition", broker="replica_id"
        ),
        response=Fields(topic="topics.topic", partition="topics.partitions.partition"),
        rows=Rows("topics.partitions", "topics.partitions", ("topic", "partition")),
        errors="topics.partitions.error_code",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(
        AnsweringNode.TRANSACTION_COORDINATOR,
        ChangedState.TRANSACTIONS,
        (
            "WRITE TRANSACTIONAL_ID | CLUSTER_ACTION CLUSTER if BROKER, "
            "WRITE TOPIC | CLUSTER_ACTION CLUSTER if BROKER"
        ),
        request=Fields(
            transactional_id="transactions.transactional_id v3_and_below_transactional_id",
            producer_id="transactions.producer_id v3_and_below_producer_id",
            topic="transactions.topics.name v3_and_below_topics.name",
            partition="transactions.topics.partitions v3_and_below_topics.partitions",
        ),
        response=Fields(
            transactional_id="results_by_transaction.transactional_id",
            topic=("results_by_transaction.topic_results.name results_by_topic_v3_and_below.name"),
            partition=(
                "results_by_transaction.topic_results.results_by_partition.partition_index "
                "results_by_topic_v3_and_below.results_by_partition.partition_index"
            ),
        ),
        rows=Rows(
            "transactions.topics.partitions",
            "results_by_transaction.topic_results.results_by_partition",
            ("transactional_id", "name", "partition_index="),
            ErrorPlace.BOTH,
        ),
        errors=(
            "error_code "
            "results_by_transaction.topic_results.results_by_partition.partition_error_code "
            "results_by_topic_v3_and_below.results_by_partition.partition_error_code"
        ),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Row(
        AnsweringNode.TRANSACTION_COORDINATOR,
        ChangedState.TRANSACTIONS,
        "WRITE TRANSACTIONAL_ID, READ GROUP",
        request=Fields(
            group="group_id", transactional_id="transactional_id", producer_id="producer_id"
        ),
        errors="error_code",
    ),
    ApiKey.END_TXN: Row(
        AnsweringNode.TRANSACTION_COORDINATOR,
        ChangedState.TRANSACTIONS,
        "WRITE TRANSACTIONAL_ID",
        request=Fields(transactional_id="transactional_id", producer_id="producer_id"),
        response=Fields(producer_id="producer_id"),
        errors="error_code",
        generates={
            GeneratedValue.PRODUCER_ID: "producer_id",
            GeneratedValue.PRODUCER_EPOCH: "producer_epoch",
        },
    ),
    ApiKey.WRITE_TXN_MARKERS: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.TRANSACTIONS,
        "CLUSTER_ACTION CLUSTER | ALTER CLUSTER",
        quota=Quota.EXEMPT,
        request=Fields(
            producer_id="markers.producer_id",
            topic="markers.topics.name",
            partition="markers.topics.partition_indexes",
        ),
        response=Fields(
            producer_id="markers.producer_id",
            topic="markers.topics.name",
            partition="markers.topics.partitions.partition_index",
        ),
        rows=Rows(
            "markers.topics.partition_indexes",
            "markers.topics.partitions",
            ("producer_id", "name", "partition_index="),
        ),
        errors="markers.topics.partitions.error_code",
    ),
    ApiKey.TXN_OFFSET_COMMIT: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.OFFSETS,
        "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC",
        request=Fields(
            group="group_id",
            member="member_id",
            instance="group_instance_id",
            transactional_id="transactional_id",
            producer_id="producer_id",
            topic="topics.name",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index",
        ),
        response=Fields(
            topic="topics.name",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index",
        ),
        rows=Rows(
            "topics.partitions",
            "topics.partitions",
            ("name topic_id", "partition_index"),
            position=Position.FIRST,
        ),
        errors="topics.partitions.error_code",
    ),
    ApiKey.DESCRIBE_ACLS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER",
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.CREATE_ACLS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        "ALTER CLUSTER",
        rows=Rows("creations", "results", ("",)),
        errors="results.error_code",
        messages="results.error_message",
    ),
    ApiKey.DELETE_ACLS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        "ALTER CLUSTER",
        rows=Rows("filters", "filter_results", ("",)),
        errors="filter_results.error_code filter_results.matching_acls.error_code",
        messages=("filter_results.error_message filter_results.matching_acls.error_message"),
    ),
    ApiKey.DESCRIBE_CONFIGS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE_CONFIGS TOPIC, DESCRIBE_CONFIGS GROUP, DESCRIBE_CONFIGS CLUSTER if OTHER_CONFIGS",
        request=Fields(
            group="resources.resource_name?resource_type=32",
            topic="resources.resource_name?resource_type=2",
            config_resource="resources.resource_name",
        ),
        response=Fields(setting="results.configs"),
        rows=Rows("resources", "results", ("resource_type resource_name",)),
        refusal_text=RefusalText.STANDARD,
        errors="results.error_code",
        messages="results.error_message",
    ),
    ApiKey.ALTER_CONFIGS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.CONFIGS,
        "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER if OTHER_CONFIGS",
        request=Fields(
            group="resources.resource_name?resource_type=32",
            topic="resources.resource_name?resource_type=2",
            config_resource="resources.resource_name",
            setting="resources.configs",
        ),
        rows=Rows(
            "resources", "responses", ("resource_type resource_name",), position=Position.REQUESTED
        ),
        refusal_text=RefusalText.STANDARD_IF_EXPECTED,
        errors="responses.error_code",
        messages="responses.error_message",
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Row(
        AnsweringNode.EACH,
        ChangedState.REPLICAS,
        "ALTER CLUSTER",
        request=Fields(topic="dirs.topics.name", partition="dirs.topics.partitions"),
        response=Fields(topic="results.topic_name", partition="results.partitions.partition_index"),
        errors="results.partitions.error_code",
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Row(
        AnsweringNode.EACH,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER",
        request=Fields(topic="topics.topic", partition="topics.partitions"),
        response=Fields(
            topic="results.topics.name", partition="results.topics.partitions.partition_index"
        ),
        errors="error_code results.error_code",
    ),
    ApiKey.SASL_AUTHENTICATE: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        NO_PERMISSION,
        quota=Quota.EXEMPT,
        request=Fields(credentials="auth_bytes"),
        response=Fields(credentials="auth_bytes"),
        refusal_text=RefusalText.STANDARD,
        errors="error_code",
        messages="error_message",
        is_authentication=True,
    ),
    ApiKey.CREATE_PARTITIONS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.TOPICS,
        "ALTER TOPIC",
        quota=Quota.CONTROLLER_MUTATION,
        quota_refusals_since=3,
        request=Fields(topic="topics.name", broker="topics.assignments.broker_ids"),
        response=Fields(topic="results.name"),
        rows=Rows("topics", "results", ("name",)),
        errors="results.error_code",
        messages="results.error_message",
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        "CREATE_TOKENS USER if FOR_OTHER_USER",
        request=Fields(user="owner_principal_name"),
        response=Fields(credentials="hmac"),
        errors="error_code",
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        NO_PERMISSION,
        request=Fields(credentials="hmac"),
        errors="error_code",
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        NO_PERMISSION,
        request=Fields(credentials="hmac"),
        errors="error_code",
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE DELEGATION_TOKEN if LISTED | DESCRIBE_TOKENS USER if LISTED",
        request=Fields(user="owners.principal_name"),
        response=Fields(credentials="tokens.hmac"),
        errors="error_code",
    ),
    ApiKey.DELETE_GROUPS: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.GROUPS,
        "DELETE GROUP",
        request=Fields(group="groups_names"),
        response=Fields(group="results.group_id"),
        rows=Rows("groups_names", "results", ("group_id=",)),
        errors="results.error_code",
        messages="results.error_message",
    ),
    ApiKey.ELECT_LEADERS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.LEADERS,
        "ALTER CLUSTER",
        request=Fields(topic="topic_partitions.topic", partition="topic_partitions.partitions"),
        response=Fields(
            topic="replica_election_results.topic",
            partition="replica_election_results.partition_result.partition_id",
        ),
        rows=Rows(
            "topic_partitions.partitions",
            "replica_election_results.partition_result",
            ("topic", "partition_id="),
            ErrorPlace.BOTH,
        ),
        errors="error_code replica_election_results.partition_result.error_code",
        messages="replica_election_results.partition_result.error_message",
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.CONFIGS,
        "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER if OTHER_CONFIGS",
        request=Fields(
            group="resources.resource_name?resource_type=32",
            topic="resources.resource_name?resource_type=2",
            config_resource="resources.resource_name",
            setting="resources.configs",
        ),
        rows=Rows(
            "resources", "responses", ("resource_type resource_name",), position=Position.REQUESTED
        ),
        refusal_text=RefusalText.STANDARD_IF_EXPECTED,
        errors="responses.error_code",
        messages="responses.error_message",
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.REPLICAS,
        "ALTER CLUSTER",
        request=Fields(
            topic="topics.name",
            partition="topics.partitions.partition_index",
            broker="topics.partitions.replicas",
        ),
        response=Fields(topic="responses.name", partition="responses.partitions.partition_index"),
        rows=Rows(
            "topics.partitions",
            "responses.partitions",
            ("name", "partition_index"),
            ErrorPlace.BOTH,
        ),
        errors="error_code responses.partitions.error_code",
        messages="error_message responses.partitions.error_message",
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER",
        request=Fields(topic="topics.name", partition="topics.partition_indexes"),
        response=Fields(
            topic="topics.name",
            partition="topics.partitions.partition_index",
            broker=(
                "topics.partitions.replicas topics.partitions.adding_replicas "
                "topics.partitions.removing_replicas"
            ),
        ),
        rows=Rows(
            "topics.partition_indexes",
            "topics.partitions",
            ("name", "partition_index="),
            ErrorPlace.BOTH,
        ),
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.OFFSET_DELETE: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.OFFSETS,
        "DELETE GROUP, READ TOPIC",
        request=Fields(
            group="group_id", topic="topics.name", partition="topics.partitions.partition_index"
        ),
        response=Fields(topic="topics.name", partition="topics.partitions.partition_index"),
        rows=Rows(
            "topics.partitions",
            "topics.partitions",
            ("name", "partition_index"),
            ErrorPlace.REQUEST,
            position=Position.FIRST,
        ),
        errors="error_code topics.partitions.error_code",
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE_CONFIGS CLUSTER",
        refused={"entries": None},
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        "ALTER_CONFIGS CLUSTER",
        errors="entries.error_code",
        messages="entries.error_message",
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER",
        request=Fields(user="users.name"),
        rows=Rows("users", "results", ("",), ErrorPlace.BOTH),
        errors="error_code results.error_code",
        messages="error_message results.error_message",
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.SECURITY,
        "ALTER CLUSTER",
        request=Fields(
            user="deletions.name upsertions.name",
            credentials="upsertions.salt upsertions.salted_password",
        ),
        errors="results.error_code",
        messages="results.error_message",
    ),
    ApiKey.DESCRIBE_QUORUM: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER",
        request=Fields(topic="topics.topic_name", partition="topics.partitions.partition_index"),
        response=Fields(
            topic="topics.topic_name",
            partition="topics.partitions.partition_index",
            broker=(
                "topics.partitions.leader_id "
                "topics.partitions.current_voters.replica_id "
                "topics.partitions.observers.replica_id nodes.node_id"
            ),
        ),
        rows=Rows(
            "topics.partitions",
            "topics.partitions",
            ("topic_name", "partition_index"),
            ErrorPlace.REQUEST,
        ),
        errors="error_code topics.partitions.error_code",
        messages="error_message topics.partitions.error_message",
    ),
    ApiKey.UPDATE_FEATURES: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.FEATURES,
        "ALTER CLUSTER",
        rows=Rows("feature_updates", "results", ("feature",), ErrorPlace.REQUEST),
        errors="error_code results.error_code",
        messages="error_message results.error_message",
    ),
    ApiKey.DESCRIBE_CLUSTER: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE CLUSTER if AUTHORIZED_OPERATIONS",
        response=Fields(broker="controller_id brokers.broker_id"),
        refusal_text=RefusalText.STANDARD,
        errors="error_code",
        messages="error_message",
        endpoints="brokers.host",
        is_discovery=True,
    ),
    ApiKey.DESCRIBE_PRODUCERS: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.NOTHING,
        "READ TOPIC",
        request=Fields(topic="topics.name", partition="topics.partition_indexes"),
        response=Fields(
            producer_id="topics.partitions.active_producers.producer_id",
            topic="topics.name",
            partition="topics.partitions.partition_index",
        ),
        rows=Rows(
            "topics.partition_indexes",
            "topics.partitions",
            ("name", "partition_index="),
            position=Position.REQUESTED,
        ),
        errors="topics.partitions.error_code",
        messages="topics.partitions.error_message",
    ),
    ApiKey.UNREGISTER_BROKER: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.BROKERS,
        "ALTER CLUSTER",
        request=Fields(broker="broker_id"),
        refusal_text=RefusalText.STANDARD,
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(
        AnsweringNode.TRANSACTION_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE TRANSACTIONAL_ID, DESCRIBE TOPIC if LISTED",
        request=Fields(transactional_id="transactional_ids"),
        response=Fields(
            transactional_id="transaction_states.transactional_id",
            producer_id="transaction_states.producer_id",
            topic="transaction_states.topics.topic",
            partition="transaction_states.topics.partitions",
        ),
        rows=Rows(
            "transactional_ids",
            "transaction_states",
            ("transactional_id=",),
            position=Position.REQUESTED,
        ),
        errors="transaction_states.error_code",
    ),
    ApiKey.LIST_TRANSACTIONS: Row(
        AnsweringNode.EACH,
        ChangedState.NOTHING,
        "DESCRIBE TRANSACTIONAL_ID if LISTED",
        request=Fields(producer_id="producer_id_filters"),
        response=Fields(
            transactional_id="transaction_states.transactional_id",
            producer_id="transaction_states.producer_id",
        ),
        errors="error_code",
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.MEMBERS,
        "READ GROUP, DESCRIBE TOPIC",
        request=Fields(
            group="group_id",
            member="member_id",
            instance="instance_id",
            topic="subscribed_topic_names",
            topic_id="topic_partitions.topic_id",
            partition="topic_partitions.partitions",
        ),
        response=Fields(
            member="member_id",
            topic_id="assignment.topic_partitions.topic_id",
            partition="assignment.topic_partitions.partitions",
        ),
        errors="error_code",
        messages="error_message",
        generates={GeneratedValue.MEMBER: "member_id", GeneratedValue.GROUP_EPOCH: "member_epoch"},
        is_polled=True,
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE GROUP, DESCRIBE TOPIC if LISTED",
        request=Fields(group="group_ids"),
        response=Fields(
            group="groups.group_id",
            member="groups.members.member_id",
            instance="groups.members.instance_id",
            topic=(
                "groups.members.subscribed_topic_names "
                "groups.members.assignment.topic_partitions.topic_name "
                "groups.members.target_assignment.topic_partitions.topic_name"
            ),
            topic_id=(
                "groups.members.assignment.topic_partitions.topic_id "
                "groups.members.target_assignment.topic_partitions.topic_id"
            ),
            partition=(
                "groups.members.assignment.topic_partitions.partitions "
                "groups.members.target_assignment.topic_partitions.partitions"
            ),
        ),
        rows=Rows("group_ids", "groups", ("group_id=",), position=Position.FIRST),
        listed=(
            "groups.members.assignment.topic_partitions.topic_name "
            "groups.members.target_assignment.topic_partitions.topic_name"
        ),
        errors="groups.error_code",
        messages="groups.error_message",
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        NO_PERMISSION,
        errors="error_code",
        generates={
            GeneratedValue.CLIENT_INSTANCE: "client_instance_id",
            GeneratedValue.SUBSCRIPTION: "subscription_id",
        },
        is_polled=True,
    ),
    ApiKey.PUSH_TELEMETRY: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        NO_PERMISSION,
        errors="error_code",
        is_polled=True,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE_CONFIGS CLUSTER",
        errors="error_code",
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(
        AnsweringNode.ANY,
        ChangedState.NOTHING,
        "DESCRIBE TOPIC",
        request=Fields(topic="topics.name cursor.topic_name", partition="cursor.partition_index"),
        response=Fields(
            topic="topics.name next_cursor.topic_name",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index next_cursor.partition_index",
            broker=(
                "topics.partitions.leader_id topics.partitions.replica_nodes "
                "topics.partitions.isr_nodes "
                "topics.partitions.eligible_leader_replicas "
                "topics.partitions.last_known_elr "
                "topics.partitions.offline_replicas"
            ),
        ),
        rows=Rows("topics", "topics", ("name",)),
        errors="topics.error_code topics.partitions.error_code",
        generates={
            GeneratedValue.TOPIC_ID: "topics.topic_id",
            GeneratedValue.LEADER_EPOCH: "topics.partitions.leader_epoch",
        },
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.MEMBERS,
        "READ GROUP, DESCRIBE TOPIC",
        request=Fields(group="group_id", member="member_id", topic="subscribed_topic_names"),
        response=Fields(
            member="member_id",
            topic_id="assignment.topic_partitions.topic_id",
            partition="assignment.topic_partitions.partitions",
        ),
        errors="error_code",
        messages="error_message",
        generates={GeneratedValue.MEMBER: "member_id", GeneratedValue.GROUP_EPOCH: "member_epoch"},
        is_polled=True,
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE GROUP, DESCRIBE TOPIC if LISTED",
        request=Fields(group="group_ids"),
        response=Fields(
            group="groups.group_id",
            member="groups.members.member_id",
            topic=(
                "groups.members.subscribed_topic_names "
                "groups.members.assignment.topic_partitions.topic_name"
            ),
            topic_id="groups.members.assignment.topic_partitions.topic_id",
            partition="groups.members.assignment.topic_partitions.partitions",
        ),
        rows=Rows("group_ids", "groups", ("group_id=",), position=Position.FIRST),
        listed="groups.members.assignment.topic_partitions.topic_name",
        errors="groups.error_code",
        messages="groups.error_message",
    ),
    ApiKey.SHARE_FETCH: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.SHARE_STATE,
        "READ GROUP, READ TOPIC",
        quota=Quota.FETCH,
        request=Fields(
            group="group_id",
            member="member_id",
            topic_id="topics.topic_id forgotten_topics_data.topic_id",
            partition="topics.partitions.partition_index forgotten_topics_data.partitions",
            session="share_session_epoch",
            max_wait_ms="max_wait_ms",
        ),
        response=Fields(
            topic_id="responses.topic_id",
            partition="responses.partitions.partition_index",
            broker=("responses.partitions.current_leader.leader_id node_endpoints.node_id"),
            records="responses.partitions.records",
        ),
        rows=Rows(
            "topics.partitions",
            "responses.partitions",
            ("topic_id", "partition_index"),
            ErrorPlace.REQUEST,
        ),
        refusal_text=RefusalText.NONE,
        errors=(
            "error_code responses.partitions.error_code responses.partitions.acknowledge_error_code"
        ),
        messages=(
            "error_message responses.partitions.error_message "
            "responses.partitions.acknowledge_error_message"
        ),
        endpoints="node_endpoints.host",
        is_polled=True,
    ),
    ApiKey.SHARE_ACKNOWLEDGE: Row(
        AnsweringNode.PARTITION_LEADER,
        ChangedState.SHARE_STATE,
        "READ GROUP, READ TOPIC",
        request=Fields(
            group="group_id",
            member="member_id",
            topic_id="topics.topic_id",
            partition="topics.partitions.partition_index",
            session="share_session_epoch",
        ),
        response=Fields(
            topic_id="responses.topic_id",
            partition="responses.partitions.partition_index",
            broker=("responses.partitions.current_leader.leader_id node_endpoints.node_id"),
        ),
        rows=Rows(
            "topics.partitions",
            "responses.partitions",
            ("topic_id", "partition_index"),
            ErrorPlace.REQUEST,
        ),
        refusal_text=RefusalText.NONE,
        errors="error_code responses.partitions.error_code",
        messages="error_message responses.partitions.error_message",
        endpoints="node_endpoints.host",
    ),
    ApiKey.ADD_RAFT_VOTER: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.BROKERS,
        "ALTER CLUSTER",
        request=Fields(broker="voter_id"),
        refusal_text=RefusalText.STANDARD,
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.REMOVE_RAFT_VOTER: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.BROKERS,
        "ALTER CLUSTER",
        request=Fields(broker="voter_id"),
        refusal_text=RefusalText.STANDARD,
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Row(
        AnsweringNode.SHARE_COORDINATOR,
        ChangedState.SHARE_STATE,
        "CLUSTER_ACTION CLUSTER",
        request=Fields(
            group="group_id", topic_id="topics.topic_id", partition="topics.partitions.partition"
        ),
        response=Fields(topic_id="results.topic_id", partition="results.partitions.partition"),
        rows=Rows("topics.partitions", "results.partitions", ("topic_id", "partition")),
        errors="results.partitions.error_code",
        messages="results.partitions.error_message",
    ),
    ApiKey.READ_SHARE_GROUP_STATE: Row(
        AnsweringNode.SHARE_COORDINATOR,
        ChangedState.NOTHING,
        "CLUSTER_ACTION CLUSTER",
        request=Fields(
            group="group_id", topic_id="topics.topic_id", partition="topics.partitions.partition"
        ),
        response=Fields(topic_id="results.topic_id", partition="results.partitions.partition"),
        rows=Rows("topics.partitions", "results.partitions", ("topic_id", "partition")),
        errors="results.partitions.error_code",
        messages="results.partitions.error_message",
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: Row(
        AnsweringNode.SHARE_COORDINATOR,
        ChangedState.SHARE_STATE,
        "CLUSTER_ACTION CLUSTER",
        request=Fields(
            group="group_id", topic_id="topics.topic_id", partition="topics.partitions.partition"
        ),
        response=Fields(topic_id="results.topic_id", partition="results.partitions.partition"),
        rows=Rows("topics.partitions", "results.partitions", ("topic_id", "partition")),
        errors="results.partitions.error_code",
        messages="results.partitions.error_message",
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: Row(
        AnsweringNode.SHARE_COORDINATOR,
        ChangedState.SHARE_STATE,
        "CLUSTER_ACTION CLUSTER",
        request=Fields(
            group="group_id", topic_id="topics.topic_id", partition="topics.partitions.partition"
        ),
        response=Fields(topic_id="results.topic_id", partition="results.partitions.partition"),
        rows=Rows("topics.partitions", "results.partitions", ("topic_id", "partition")),
        errors="results.partitions.error_code",
        messages="results.partitions.error_message",
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Row(
        AnsweringNode.SHARE_COORDINATOR,
        ChangedState.NOTHING,
        "CLUSTER_ACTION CLUSTER",
        request=Fields(
            group="group_id", topic_id="topics.topic_id", partition="topics.partitions.partition"
        ),
        response=Fields(topic_id="results.topic_id", partition="results.partitions.partition"),
        rows=Rows("topics.partitions", "results.partitions", ("topic_id", "partition")),
        errors="results.partitions.error_code",
        messages="results.partitions.error_message",
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.MEMBERS,
        (
            "READ GROUP, DESCRIBE TOPIC, "
            "CREATE CLUSTER if CREATES_TOPIC | CREATE TOPIC if CREATES_TOPIC"
        ),
        request=Fields(
            group="group_id",
            member="member_id",
            instance="instance_id",
            topic=(
                "topology.subtopologies.source_topics "
                "topology.subtopologies.repartition_sink_topics "
                "topology.subtopologies.repartition_source_topics.name "
                "topology.subtopologies.state_changelog_topics.name"
            ),
        ),
        response=Fields(
            member="member_id",
            topic=(
                "partitions_by_user_endpoint.active_partitions.topic "
                "partitions_by_user_endpoint.standby_partitions.topic"
            ),
            partition=(
                "partitions_by_user_endpoint.active_partitions.partitions "
                "partitions_by_user_endpoint.standby_partitions.partitions"
            ),
        ),
        errors="error_code",
        messages="error_message",
        generates={GeneratedValue.MEMBER: "member_id", GeneratedValue.GROUP_EPOCH: "member_epoch"},
        is_polled=True,
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE GROUP, DESCRIBE TOPIC if LISTED",
        request=Fields(group="group_ids"),
        response=Fields(
            group="groups.group_id",
            member="groups.members.member_id",
            instance="groups.members.instance_id",
            topic=(
                "groups.topology.subtopologies.source_topics "
                "groups.topology.subtopologies.repartition_sink_topics "
                "groups.topology.subtopologies.state_changelog_topics.name "
                "groups.topology.subtopologies.repartition_source_topics.name "
                "groups.topology_description.subtopologies.nodes.source_topics "
                "groups.topology_description.subtopologies.nodes.sink_topic "
                "groups.topology_description.global_stores.source.source_topics "
                "groups.topology_description.global_stores.source.sink_topic "
                "groups.topology_description.global_stores.processor.source_topics "
                "groups.topology_description.global_stores.processor.sink_topic"
            ),
        ),
        rows=Rows("group_ids", "groups", ("group_id=",), position=Position.FIRST),
        listed=(
            "groups.topology.subtopologies.source_topics "
            "groups.topology.subtopologies.repartition_sink_topics "
            "groups.topology.subtopologies.repartition_source_topics.name "
            "groups.topology.subtopologies.state_changelog_topics.name"
        ),
        errors="groups.error_code",
        messages="groups.error_message",
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.NOTHING,
        "DESCRIBE GROUP, DESCRIBE TOPIC",
        request=Fields(
            group="groups.group_id",
            topic="groups.topics.topic_name",
            partition="groups.topics.partitions",
        ),
        response=Fields(
            group="groups.group_id",
            topic="groups.topics.topic_name",
            topic_id="groups.topics.topic_id",
            partition="groups.topics.partitions.partition_index",
        ),
        rows=Rows(
            "groups.topics.partitions",
            "groups.topics.partitions",
            ("group_id", "topic_name", "partition_index="),
        ),
        refused={"groups.topics.partitions.start_offset": -1},
        errors="groups.topics.partitions.error_code groups.error_code",
        messages="groups.topics.partitions.error_message groups.error_message",
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.SHARE_STATE,
        "READ GROUP, READ TOPIC",
        request=Fields(
            group="group_id",
            topic="topics.topic_name",
            partition="topics.partitions.partition_index",
        ),
        response=Fields(
            topic="responses.topic_name",
            topic_id="responses.topic_id",
            partition="responses.partitions.partition_index",
        ),
        rows=Rows(
            "topics.partitions",
            "responses.partitions",
            ("topic_name", "partition_index"),
            ErrorPlace.REQUEST,
            position=Position.FIRST,
        ),
        refusal_text=RefusalText.STANDARD,
        errors="error_code responses.partitions.error_code",
        messages="error_message responses.partitions.error_message",
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.SHARE_STATE,
        "DELETE GROUP, READ TOPIC",
        request=Fields(group="group_id", topic="topics.topic_name"),
        response=Fields(topic="responses.topic_name", topic_id="responses.topic_id"),
        rows=Rows(
            "topics", "responses", ("topic_name",), ErrorPlace.REQUEST, position=Position.FIRST
        ),
        refusal_text=RefusalText.STANDARD,
        errors="error_code responses.error_code",
        messages="error_message responses.error_message",
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.GROUPS,
        "READ GROUP",
        request=Fields(
            group="group_id",
            member="member_id",
            topic=(
                "topology_description.subtopologies.nodes.source_topics "
                "topology_description.subtopologies.nodes.sink_topic "
                "topology_description.global_stores.source.source_topics "
                "topology_description.global_stores.source.sink_topic "
                "topology_description.global_stores.processor.source_topics "
                "topology_description.global_stores.processor.sink_topic"
            ),
        ),
        errors="error_code",
        messages="error_message",
    ),
    ApiKey.UNREGISTER_CONTROLLER: Row(
        AnsweringNode.CONTROLLER,
        ChangedState.BROKERS,
        "ALTER CLUSTER",
        refusal_text=RefusalText.STANDARD,
        errors="error_code",
        messages="error_message",
    ),
}
"""API key → properties of the API; every API with a spec has a row."""


def row(key: int) -> Row:
    """Return the row of an API; raises KeyError for one without a spec."""
    return ROWS[key]


def keys_where(condition: Callable[[Row], object]) -> frozenset[int]:
    """Return the keys of the APIs whose rows satisfy a condition."""
    return frozenset(int(key) for key, each in ROWS.items() if condition(each))


def entities_in_request(key: int, entity: Entity, request: Message) -> Iterator[Any]:
    """Yield the entities in a decoded request, in order and with repetitions.

    Partitions are `TopicPartition`, topic ids are bytes, brokers and producer ids are numbers.
    """
    for read in _readers(ROWS[key].request, entity):
        yield from read(request)


def entities_in_response(key: int, entity: Entity, response: Message) -> Iterator[Any]:
    """Yield the entities in a decoded response, as `entities_in_request` does for a request."""
    for read in _readers(ROWS[key].response, entity):
        yield from read(response)


def error_codes(key: int, response: Message) -> Iterator[int]:
    """Yield every error code of a decoded response, including zeros."""
    for place in ROWS[key].errors.split():
        yield from values_at(response, place)


def endpoints(entry: Row) -> tuple[tuple[str, str], ...]:
    """Return (place of a struct with host and port, its field with the node's id).

    The place is "" if the message itself has these fields.
    """
    owners = (each.rpartition(".")[0] for each in entry.endpoints.split())
    ids = {
        each.rpartition(".")[0]: each.rpartition(".")[2] for each in entry.response.broker.split()
    }
    return tuple((owner, ids[owner]) for owner in owners)


def structs_at(message: Any, place: str) -> Iterator[Any]:  # noqa: ANN401 - any message or struct
    """Yield the structs that contain the last field of a place."""
    owner, _, _ = place.rpartition(".")
    return _structs_below(message, tuple(owner.split(".")) if owner else ())


def values_at(message: Any, place: str) -> Iterator[Any]:  # noqa: ANN401 - any message or struct
    """Yield the values at a place, the elements of lists one by one; nulls are omitted."""
    path, _, condition = place.partition("?")
    name = path.rpartition(".")[2]
    condition_field, _, required = condition.partition("=")
    for struct in structs_at(message, path):
        if condition_field and getattr(struct, condition_field) != int(required):
            continue
        value = getattr(struct, name)
        if isinstance(value, list | tuple):
            yield from value
        elif value is not None:
            yield value


def _structs_below(message: Any, steps: tuple[str, ...]) -> Iterator[Any]:  # noqa: ANN401
    if not steps:
        yield message
        return
    inner = getattr(message, steps[0])
    if inner is None:
        return
    for each in inner if isinstance(inner, list | tuple) else (inner,):
        yield from _structs_below(each, steps[1:])


@cache
def _readers(fields: Fields, entity: Entity) -> tuple[Reader, ...]:
    """Return functions that read an entity from a message, one for each place."""
    places = getattr(fields, entity.value, "").split()
    if entity is Entity.PARTITION:
        return tuple(_partition_reader(fields, place) for place in places)
    return tuple(_reader(place) for place in places)


def _reader(place: str) -> Reader:
    def read(message: Any) -> Iterator[Any]:  # noqa: ANN401
        return (value for value in values_at(message, place) if _names_entity(value))

    return read


def _partition_reader(fields: Fields, place: str) -> Reader:
    """Return a reader of partitions, with the topic of the nearest enclosing struct."""
    topics = [each.rpartition(".") for each in (*fields.topic.split(), *fields.topic_id.split())]
    owner = max((each for each, _, _ in topics if place.startswith(f"{each}.")), key=len)
    names = [name for each, _, name in topics if each == owner]
    inner = place.removeprefix(f"{owner}.")
    steps = tuple(owner.split("."))

    def read(message: Any) -> Iterator[TopicPartition]:  # noqa: ANN401
        for struct in _structs_below(message, steps):
            topic = next(
                (each for name in names if _names_entity(each := getattr(struct, name))), ""
            )
            for partition in values_at(struct, inner):
                yield TopicPartition(topic, partition)

    return read


_NO_ID: Final = bytes(16)


def _names_entity(value: object) -> bool:
    """Whether a value names an entity; empty names, zero ids and negative numbers do not."""
    if isinstance(value, int):
        return value >= 0
    return value not in (None, "", _NO_ID)
