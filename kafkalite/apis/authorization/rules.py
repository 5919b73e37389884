"""The rules of APIs: how their requests are checked beyond the checks of whole requests.

`RULES` has a row for every served API that needs a permission. A `Listed` rule is for requests with
a list of resources: refused elements are removed from the request, and get rows with an error in
the response. Other rules name a function in `special`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping


class Position(Enum):
    """The position of refused rows in a response."""

    FIRST = "before the rows of the handler"
    LAST = "after the rows of the handler"
    REQUESTED = "in the order of the request"


class Listed(NamedTuple):
    """A list of resources in requests."""

    operation: Operation
    resource: Resource
    entries: str
    """The field of requests with the list."""
    name: str
    """The field of an element with the name; empty if elements are names."""
    answers: str
    """The field of responses with a row for each element."""
    position: Position = Position.LAST
    has_ids: bool = False
    """Whether elements without a name have a `topic_id`."""
    is_called_without_entries: bool = False
    """Whether the handler is called even if all elements are refused."""
    alternative: Operation | None = None
    """An operation on the cluster that is sufficient for all elements."""
    has_message: bool = False
    """Whether refused rows have the standard message of the error code."""
    omits_repeated: bool = False
    """Whether elements that occur several times are left to the handler, which refuses them."""
    omits_invalid: bool = False
    """Whether invalid names of topics are left to the handler, which refuses them."""


class ClusterMessage(Enum):
    """The message of a refusal for the cluster."""

    NEEDED = "the operation that the request needs"
    STANDARD = "the standard message of the error code"
    NONE = "none"


class Rule(NamedTuple):
    """How the requests of one API are checked."""

    listed: Listed | None = None
    function: str = ""
    """The name of a function in `special` that serves a request."""
    first: str = ""
    """The name of a function in `special` whose KafkaError has precedence over a refusal."""
    after: str = ""
    """The name of a function in `special` that removes secret parts of a response."""
    is_whole: bool = True
    """Whether the catalogue's permissions on groups, transactional ids and the cluster are checked
    for the whole request."""
    is_in_handler: bool = False
    """Whether the handler checks more resources by `Call.permissions`, because they are known only
    after other decisions, such as those of a fetch session."""
    cluster_message: ClusterMessage = ClusterMessage.NEEDED
    rows: str = ""
    """The name of a function in `special` that returns the rows of refused elements, for an API
    whose errors otherwise are for the whole request."""


_DESCRIBED_GROUPS: Final = Listed(
    Operation.DESCRIBE, Resource.GROUP, "group_ids", "", "groups", Position.FIRST,
    is_called_without_entries=True,
)  # fmt: skip

RULES: Final[Mapping[int, Rule]] = {
    ApiKey.PRODUCE: Rule(
        listed=Listed(
            Operation.WRITE, Resource.TOPIC, "topic_data", "name", "responses", has_ids=True
        ),
        function="produce",
        is_whole=False,
    ),
    ApiKey.FETCH: Rule(is_in_handler=True),
    ApiKey.LIST_OFFSETS: Rule(
        listed=Listed(Operation.DESCRIBE, Resource.TOPIC, "topics", "name", "topics")
    ),
    ApiKey.METADATA: Rule(is_in_handler=True),
    ApiKey.OFFSET_COMMIT: Rule(
        listed=Listed(
            Operation.READ, Resource.TOPIC, "topics", "name", "topics", Position.FIRST,
            has_ids=True,
        )
    ),
    ApiKey.OFFSET_FETCH: Rule(function="offset_fetch"),
    ApiKey.FIND_COORDINATOR: Rule(function="find_coordinator"),
    ApiKey.JOIN_GROUP: Rule(),
    ApiKey.HEARTBEAT: Rule(),
    ApiKey.LEAVE_GROUP: Rule(),
    ApiKey.SYNC_GROUP: Rule(first="check_sync_protocol"),
    ApiKey.DESCRIBE_GROUPS: Rule(
        listed=_DESCRIBED_GROUPS._replace(entries="groups"),
    ),
    ApiKey.LIST_GROUPS: Rule(after="filter_listed_groups"),
    ApiKey.CREATE_TOPICS: Rule(function="create_topics"),
    ApiKey.DELETE_TOPICS: Rule(function="delete_topics"),
    ApiKey.DELETE_RECORDS: Rule(
        listed=Listed(Operation.DELETE, Resource.TOPIC, "topics", "name", "topics")
    ),
    ApiKey.INIT_PRODUCER_ID: Rule(function="init_producer_id", is_whole=False),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Rule(
        listed=Listed(
            Operation.DESCRIBE, Resource.TOPIC, "topics", "topic", "topics",
            alternative=Operation.CLUSTER_ACTION,
        )
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Rule(function="add_partitions_to_txn", is_whole=False),
    ApiKey.ADD_OFFSETS_TO_TXN: Rule(),
    ApiKey.END_TXN: Rule(),
    ApiKey.WRITE_TXN_MARKERS: Rule(),
    ApiKey.TXN_OFFSET_COMMIT: Rule(
        listed=Listed(
            Operation.READ, Resource.TOPIC, "topics", "name", "topics", Position.FIRST,
            has_ids=True,
        )
    ),
    ApiKey.DESCRIBE_ACLS: Rule(),
    ApiKey.CREATE_ACLS: Rule(),
    ApiKey.DELETE_ACLS: Rule(),
    ApiKey.DESCRIBE_CONFIGS: Rule(function="describe_configs"),
    ApiKey.ALTER_CONFIGS: Rule(function="alter_configs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Rule(),
    ApiKey.DESCRIBE_LOG_DIRS: Rule(),
    ApiKey.CREATE_PARTITIONS: Rule(
        listed=Listed(
            Operation.ALTER, Resource.TOPIC, "topics", "name", "results", omits_repeated=True
        )
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: Rule(function="create_delegation_token", is_in_handler=True),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Rule(is_in_handler=True),
    ApiKey.DELETE_GROUPS: Rule(
        listed=Listed(Operation.DELETE, Resource.GROUP, "groups_names", "", "results")
    ),
    ApiKey.ELECT_LEADERS: Rule(),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(function="alter_configs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Rule(),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Rule(),
    ApiKey.OFFSET_DELETE: Rule(
        listed=Listed(
            Operation.READ, Resource.TOPIC, "topics", "name", "topics", Position.FIRST,
            is_called_without_entries=True,
        ),
        rows="offset_delete_rows",
    ),
    ApiKey.DESCRIBE_QUORUM: Rule(cluster_message=ClusterMessage.STANDARD),
    ApiKey.UPDATE_FEATURES: Rule(),
    ApiKey.DESCRIBE_CLUSTER: Rule(is_in_handler=True),
    ApiKey.DESCRIBE_PRODUCERS: Rule(
        listed=Listed(
            Operation.READ, Resource.TOPIC, "topics", "name", "topics", Position.REQUESTED,
            has_message=True, omits_invalid=True,
        )
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Rule(cluster_message=ClusterMessage.NONE),
    ApiKey.ALTER_CLIENT_QUOTAS: Rule(),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Rule(cluster_message=ClusterMessage.NONE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Rule(),
    ApiKey.UNREGISTER_BROKER: Rule(),
    ApiKey.DESCRIBE_TRANSACTIONS: Rule(
        listed=Listed(
            Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "transactional_ids", "",
            "transaction_states", Position.REQUESTED,
        ),
        after="filter_topics_of_transactions",
    ),
    ApiKey.LIST_TRANSACTIONS: Rule(after="filter_listed_transactions"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Rule(
        function="subscription", first="check_consumer_protocol"
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Rule(
        listed=_DESCRIBED_GROUPS, first="check_consumer_protocol", after="hide_group_members"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Rule(),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rule(is_in_handler=True),
    ApiKey.SHARE_GROUP_HEARTBEAT: Rule(function="subscription", first="check_share_protocol"),
    ApiKey.SHARE_GROUP_DESCRIBE: Rule(
        listed=_DESCRIBED_GROUPS, first="check_share_protocol", after="hide_group_members"
    ),
    ApiKey.SHARE_FETCH: Rule(first="check_share_group_id", is_in_handler=True),
    ApiKey.SHARE_ACKNOWLEDGE: Rule(first="check_share_group_id", is_in_handler=True),
    ApiKey.ADD_RAFT_VOTER: Rule(),
    ApiKey.REMOVE_RAFT_VOTER: Rule(),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Rule(cluster_message=ClusterMessage.STANDARD),
    ApiKey.READ_SHARE_GROUP_STATE: Rule(cluster_message=ClusterMessage.STANDARD),
    ApiKey.WRITE_SHARE_GROUP_STATE: Rule(cluster_message=ClusterMessage.STANDARD),
    ApiKey.DELETE_SHARE_GROUP_STATE: Rule(cluster_message=ClusterMessage.STANDARD),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Rule(cluster_message=ClusterMessage.STANDARD),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Rule(
        function="streams_topology", first="check_streams_protocol"
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: Rule(
        listed=_DESCRIBED_GROUPS, first="check_streams_protocol", after="hide_streams_members"
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Rule(first="check_streams_protocol"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Rule(function="describe_share_group_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Rule(
        listed=Listed(
            Operation.READ, Resource.TOPIC, "topics", "topic_name", "responses", Position.FIRST,
            is_called_without_entries=True, has_message=True,
        ),
        first="check_share_protocol",
        rows="altered_share_offsets_rows",
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Rule(
        listed=Listed(
            Operation.READ, Resource.TOPIC, "topics", "topic_name", "responses", Position.FIRST,
            is_called_without_entries=True, has_message=True,
        ),
        first="check_share_protocol",
        rows="deleted_share_offsets_rows",
    ),
    ApiKey.UNREGISTER_CONTROLLER: Rule(),
}  # fmt: skip
"""API key → rule."""

_REFUSED_AT_CONTROLLER: Final = (
    ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)  # fmt: skip
CONTROLLER_RULES: Final[Mapping[int, Rule]] = {
    **{key: rule for key, rule in RULES.items() if key not in _REFUSED_AT_CONTROLLER},
    ApiKey.CREATE_DELEGATION_TOKEN: Rule(is_in_handler=True),
    ApiKey.ALTER_CONFIGS: Rule(function="alter_configs_at_controller"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(function="alter_configs_at_controller"),
}
"""API key → rule, for requests of clients of the controller."""
