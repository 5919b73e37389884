"""The rules of APIs: how their requests are checked beyond the permissions of the catalogue.

An API without a rule needs the permissions of its row in the catalogue: those for the whole
request, that for all names in it, and that of each row in its requests. Refused rows are removed
from the request, and get an error in the response. A request of an API with other permissions is
refused: such an API needs a rule, whose functions are in `special`.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final

from kafkalite.apis.authorization.checks import is_for_whole_request
from kafkalite.metadata.image import INTERNAL_TOPICS
from kafkalite.metadata.topic_names import METADATA_TOPIC, invalid_name_reason
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import When, row
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.protocol.acl_operations import Operation, Resource


class ClusterMessage(Enum):
    """The message of a refusal for the cluster."""

    NEEDED = "the operation that the request needs"
    STANDARD = "the standard message of the error code"
    NONE = "none"


class Rule(NamedTuple):
    """How the requests of one API are checked."""

    is_called_without_rows: bool = False
    """Whether the handler is called even if all rows are refused."""
    message: str | None = None
    """The error message of refused rows."""
    omits_repeated: bool = False
    """Whether rows that occur several times are left to the handler, which refuses them."""
    refuses: Callable[[str], object] | None = None
    """Says whether the handler refuses a topic anyway, by its name."""
    complete: str = ""
    """The name of a function in `special` that completes refused rows."""
    function: str = ""
    """The name of a function in `special` that serves a request."""
    after: str = ""
    """The name of a function in `special` that removes secret parts of a response."""
    hidden: str = ""
    """The error message of answered rows in which the client may not see all names; without one,
    such names are removed. See `listed`."""
    is_whole: bool = True
    """Whether the catalogue's permissions on groups, transactional ids and the cluster are checked
    for the whole request."""
    is_in_handler: bool = False
    """Whether the handler checks more resources by `Call.permissions`, because they are known only
    after other decisions, such as those of a fetch session."""
    cluster_message: ClusterMessage = ClusterMessage.NEEDED

    @property
    def is_derived(self) -> bool:
        """Whether the permissions of the catalogue are all that is checked."""
        return not (self.function or self.after or self.is_in_handler)


class RowPermission(NamedTuple):
    """The permission that each row of a request needs."""

    operation: Operation
    resource: Resource
    rows: str
    """The field of requests with the rows."""
    name: str
    """The field of a row with the name; empty if rows are names."""
    has_ids: bool
    """Whether rows without a name have a `topic_id`."""
    alternative: Operation | None
    """An operation on the cluster that is sufficient for all rows."""


@cache
def row_permission(key: int) -> RowPermission | None:
    """Return the permission that each row in the outermost list of a request needs, if any."""
    properties = row(key)
    if properties.rows is None:
        return None
    rows = properties.rows.requested.split(".")[0]
    for first, *others in properties.access:
        if first.when is not When.ALWAYS:
            continue
        named = [
            each
            for each in properties.request.names_of(first.resource)
            if (each == rows or each.rpartition(".")[0] == rows) and "?" not in each
        ]
        if named:
            alternatives = (each.operation for each in others if each.when is When.ALWAYS)
            return RowPermission(
                first.operation,
                first.resource,
                rows,
                named[0].removeprefix(rows).removeprefix("."),
                f"{rows}.topic_id" in properties.request.topic_id.split(),
                next(alternatives, None),
            )
    return None


class NamesPermission(NamedTuple):
    """The permission that a request needs for all names at some places, which are not in rows."""

    operation: Operation
    resource: Resource
    places: Sequence[str]

    @property
    def field(self) -> str:
        """The field of requests with the names; without it, a request has no names."""
        return self.places[0].split(".")[0]


@cache
def names_permission(key: int) -> NamesPermission | None:
    """Return the permission that a request needs for all names in its lists, if any.

    The first name that is refused fails the request: the API has no rows for the names.
    """
    properties = row(key)
    for alternatives in properties.access if properties.rows is None else ():
        (operation, resource, when), *others = alternatives
        places = properties.request.names_of(resource)
        if (
            when is When.ALWAYS
            and places
            and not others
            and not is_for_whole_request(properties, alternatives)
        ):
            return NamesPermission(operation, resource, places)
    return None


def has_all_permissions(key: int) -> bool:
    """Return whether a rule without functions checks all permissions of an API."""
    properties, of_rows, of_names = row(key), row_permission(key), names_permission(key)
    return all(
        is_for_whole_request(properties, alternatives)
        or (of_names is not None and (*of_names[:2], When.ALWAYS) == alternatives[0])
        or (
            of_rows is not None
            and (of_rows.operation, of_rows.resource) == alternatives[0][:2]
            and alternatives[0].when is When.ALWAYS
        )
        or any(each.when is When.LISTED for each in alternatives)
        for alternatives in properties.access
    )


_EVEN_WITHOUT_ROWS: Final = Rule(is_called_without_rows=True)
_DESCRIBED_GROUPS: Final = _EVEN_WITHOUT_ROWS._replace(
    hidden="The group has described topic(s) that the client is not authorized to describe."
)
_NODES_ONLY: Final = Rule(cluster_message=ClusterMessage.STANDARD)
_WITHOUT_MESSAGE: Final = Rule(cluster_message=ClusterMessage.NONE)

RULES: Final[Mapping[int, Rule]] = {
    ApiKey.PRODUCE: Rule(function="produce", is_whole=False),
    ApiKey.FETCH: Rule(is_in_handler=True),
    ApiKey.METADATA: Rule(is_in_handler=True),
    ApiKey.OFFSET_FETCH: Rule(function="offset_fetch"),
    ApiKey.FIND_COORDINATOR: Rule(function="find_coordinator"),
    ApiKey.DESCRIBE_GROUPS: _EVEN_WITHOUT_ROWS,
    ApiKey.CREATE_TOPICS: Rule(
        is_called_without_rows=True,
        message="Authorization failed.",
        omits_repeated=True,
        refuses=METADATA_TOPIC.__eq__,
        after="hide_configs",
    ),
    ApiKey.DELETE_TOPICS: Rule(function="delete_topics"),
    ApiKey.INIT_PRODUCER_ID: Rule(function="init_producer_id", is_whole=False),
    ApiKey.ADD_PARTITIONS_TO_TXN: Rule(function="add_partitions_to_txn", is_whole=False),
    ApiKey.DESCRIBE_CONFIGS: Rule(function="describe_configs"),
    ApiKey.ALTER_CONFIGS: Rule(function="alter_configs"),
    ApiKey.CREATE_PARTITIONS: Rule(omits_repeated=True),
    ApiKey.CREATE_DELEGATION_TOKEN: Rule(function="create_delegation_token", is_in_handler=True),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Rule(is_in_handler=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(function="alter_configs"),
    ApiKey.OFFSET_DELETE: _EVEN_WITHOUT_ROWS,
    ApiKey.DESCRIBE_QUORUM: _NODES_ONLY,
    ApiKey.DESCRIBE_CLUSTER: Rule(is_in_handler=True),
    ApiKey.DESCRIBE_PRODUCERS: Rule(
        message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.message, refuses=invalid_name_reason
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _WITHOUT_MESSAGE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _WITHOUT_MESSAGE,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _DESCRIBED_GROUPS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rule(is_in_handler=True),
    ApiKey.SHARE_GROUP_DESCRIBE: _DESCRIBED_GROUPS,
    ApiKey.SHARE_FETCH: Rule(is_in_handler=True),
    ApiKey.SHARE_ACKNOWLEDGE: Rule(is_in_handler=True),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _NODES_ONLY,
    ApiKey.READ_SHARE_GROUP_STATE: _NODES_ONLY,
    ApiKey.WRITE_SHARE_GROUP_STATE: _NODES_ONLY,
    ApiKey.DELETE_SHARE_GROUP_STATE: _NODES_ONLY,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _NODES_ONLY,
    ApiKey.STREAMS_GROUP_HEARTBEAT: Rule(
        is_in_handler=True,
        refuses=lambda name: name in INTERNAL_TOPICS or invalid_name_reason(name),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: _DESCRIBED_GROUPS._replace(
        hidden="The described group uses topics that the client is not authorized to describe."
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Rule(function="describe_share_group_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _EVEN_WITHOUT_ROWS._replace(complete="fill_in_topic_ids"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _EVEN_WITHOUT_ROWS,
}
"""API key → rule."""

_REFUSED_AT_CONTROLLER: Final = (
    ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)  # fmt: skip
"""The handlers of a controller refuse these APIs, so permissions do not matter."""

CONTROLLER_RULES: Final[Mapping[int, Rule | None]] = {
    **RULES,
    ApiKey.CREATE_DELEGATION_TOKEN: Rule(is_in_handler=True),
    ApiKey.ALTER_CONFIGS: Rule(function="alter_configs_at_controller"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(function="alter_configs_at_controller"),
    **dict.fromkeys(_REFUSED_AT_CONTROLLER),
}
"""API key → rule, for requests of clients of the controller; None without a check."""
