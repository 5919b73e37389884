"""The functions of the rules in `rules`: APIs whose permissions depend on more than one list.

Messages and helpers of handlers are imported when a function needs them: a broker without an
authorizer, and the first requests of one with an authorizer, need few of them.
"""

# ruff: noqa: PLC0415 - see above
# ruff: noqa: ANN401 - requests and responses of several APIs
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.authorization.checks import (
    check,
    cluster_message,
    refusal_unless_allowed,
)
from kafkalite.metadata.image import ResourceType
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps
from kafkalite.ports.waiting import chain
from kafkalite.protocol import catalogue
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import Position, values_at
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.message import with_fields
from kafkalite.protocol.rows import refused_row, repetition
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.apis.authorization.step import Guard
    from kafkalite.gateway.call import Call
    from kafkalite.security.permissions import Permissions

_TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_REFUSED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID_REFUSED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_RECORDS: Final = catalogue.row(ApiKey.PRODUCE).request.records


# Refused rows


def fill_in_topic_ids(call: Call, rows: list[Any]) -> None:
    """Set the topic ids of refused rows."""
    topics = call.node.image.topics
    for row in in_steps(rows):
        if row.topic_name in topics:
            row.topic_id = topics[row.topic_name].topic_id


# Parts of responses that the client may not see


def hide_configs(permissions: Permissions, response: Any) -> Any:
    """Replace the settings of created topics by an error, if the client may not describe them."""
    for row in response.topics:
        if row.error_code == ErrorCode.NONE and not permissions.allows(
            Operation.DESCRIBE_CONFIGS, Resource.TOPIC, row.name
        ):
            row.topic_config_error_code = _TOPIC_REFUSED
            row.num_partitions = row.replication_factor = -1
            row.configs = []
    return response


# Produce and transactions


def produce(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve Produce: transactional batches need the transactional id, all batches their topic."""
    from kafkalite.apis.data.produce import violation_without_acks
    from kafkalite.partitions.produce_batches import is_first_batch_transactional

    transactional_id = request.transactional_id
    if (
        transactional_id is not None
        and not permissions.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
        and any(map(is_first_batch_transactional, values_at(request, _RECORDS)))
    ):
        if not request.acks:
            raise violation_without_acks(_TRANSACTIONAL_ID_REFUSED)
        check(
            permissions,
            Operation.WRITE,
            Resource.TRANSACTIONAL_ID,
            transactional_id,
            _TRANSACTIONAL_ID_REFUSED.message,
        )
    answer = guard.serve_listed(call, permissions, request)
    if not request.acks and answer is not None:
        # Only refused elements give an answer to a request without acknowledgement.
        raise violation_without_acks(_TOPIC_REFUSED)
    return answer


def init_producer_id(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve InitProducerId; without a transactional id, any writable topic is sufficient."""
    name = request.transactional_id
    if name is not None:
        check(permissions, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
        if request.enable2_pc:
            check(permissions, Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, name)
    elif not permissions.allows(
        Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME
    ) and not permissions.allows_on_any(Operation.WRITE, Resource.TOPIC):
        check(permissions, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME)
    return guard.handler(call, request)


def add_partitions_to_txn(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve AddPartitionsToTxn: of clients, or in later versions of nodes.

    The handler checks the topics.
    """
    if call.era.is_from_brokers:
        if not permissions.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            empty = with_fields(request, transactions=[])
            return guard.api.refuse(empty, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    else:
        for transaction in request.transactions:
            check(
                permissions,
                Operation.WRITE,
                Resource.TRANSACTIONAL_ID,
                transaction.transactional_id,
            )
    return guard.handler(call, request)


# Groups


def find_coordinator(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve FindCoordinator: each key needs DESCRIBE; share partitions are for nodes."""
    from kafkalite.apis.groups.find_coordinator import CoordinatorType

    resource = {
        CoordinatorType.GROUP: Resource.GROUP,
        CoordinatorType.TRANSACTION: Resource.TRANSACTIONAL_ID,
    }.get(request.key_type)
    if resource is None:
        if request.key_type == CoordinatorType.SHARE and call.era.knows_share_partitions:
            message = cluster_message(guard.api.name, Operation.CLUSTER_ACTION)
            check(permissions, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, message)
        return guard.handler(call, request)
    return guard.serve_rows(
        call,
        request,
        partial(refusal_unless_allowed, permissions, Operation.DESCRIBE, resource),
    )


class _SplitGroup(NamedTuple):
    """The refused parts of a group in a request, as parts of the response."""

    requests_all_topics: bool
    refused_group: Any = None
    """The answer for the group if all of it is refused."""
    refused_topics: Sequence[Any] = ()


def _serve_offsets(  # noqa: PLR0917 - called by the functions of two APIs, with their parameters
    guard: Guard,
    call: Call,
    permissions: Permissions,
    request: Any,
    requested_name: Callable[[Any], str | None],
    refused_group: Callable[[Any], Any],
) -> Any:
    """Serve a request for offsets of groups: groups and topics need DESCRIBE.

    If all topics of a group are requested, the response has those that the client may describe.
    `requested_name` returns the name of a requested topic, None for an unknown topic id.
    `refused_group` returns the answer for a group that is refused.
    """
    split: list[_SplitGroup] = []
    groups = []
    for group in request.groups:
        requests_all = group.topics is None
        error = refusal_unless_allowed(
            permissions, Operation.DESCRIBE, Resource.GROUP, group.group_id
        )
        if error is not None:
            guard.report(call, None, [error])
            split.append(_SplitGroup(requests_all, refused_group=refused_group(group)))
            continue
        allowed: list[Any] = []
        refused: list[Any] = []
        for topic in group.topics or ():
            name = requested_name(topic)
            is_allowed = name is None or permissions.allows(
                Operation.DESCRIBE, Resource.TOPIC, name
            )
            (allowed if is_allowed else refused).append(topic)
        message = _TOPIC_REFUSED.message
        rows = [
            refused_row(guard.api.key, 1, topic, _TOPIC_REFUSED, message)
            for topic in in_steps(refused)
        ]
        split.append(_SplitGroup(requests_all, refused_topics=rows))
        if refused:
            group = with_fields(group, topics=allowed)  # noqa: PLW2901 - the group that is served
        groups.append(group)
    answer = guard.handler(call, with_fields(request, groups=groups))
    described = catalogue.row(guard.api.key).rows
    assert described is not None
    name_field = described.copied[1].split()[0]
    return chain(answer, partial(_merge_groups, name_field, permissions, split))


def _merge_groups(
    name_field: str, permissions: Permissions, split: list[_SplitGroup], response: Any
) -> Any:
    """Add refused groups and topics to a response, in the order of the request."""
    answered = iter(response.groups)
    groups = []
    for group in split:
        if group.refused_group is not None:
            groups.append(group.refused_group)
            continue
        answer = next(answered)
        if group.requests_all_topics:
            answer.topics = [
                topic
                for topic in answer.topics
                if permissions.allows(
                    Operation.DESCRIBE, Resource.TOPIC, getattr(topic, name_field)
                )
            ]
        elif answer.error_code == ErrorCode.NONE:
            answer.topics = [*answer.topics, *group.refused_topics]
        groups.append(answer)
    return with_fields(response, groups=groups)


def offset_fetch(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve OffsetFetch; see `_serve_offsets`."""
    from kafkalite.apis.groups.offset_fetch import group_error

    def requested_name(topic: Any) -> str | None:
        if topic.name or not call.era.uses_topic_ids:
            return str(topic.name)
        return call.node.image.topic_name(topic.topic_id)

    def refused_group(group: Any) -> Any:
        return group_error(group, _GROUP_REFUSED, call.era)

    return _serve_offsets(guard, call, permissions, request, requested_name, refused_group)


def describe_share_group_offsets(
    guard: Guard, call: Call, permissions: Permissions, request: Any
) -> Any:
    """Serve DescribeShareGroupOffsets; see `_serve_offsets`."""
    guard.check_first(call, request)
    return _serve_offsets(
        guard,
        call,
        permissions,
        request,
        lambda topic: str(topic.topic_name),
        lambda group: refused_row(guard.api.key, 0, group, _GROUP_REFUSED),
    )


# Topics


def delete_topics(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve DeleteTopics: topics need DELETE; without DESCRIBE, their names are not disclosed."""
    from kafkalite.apis.timeouts import check_timeout

    image = call.node.cluster.metadata.image
    is_enabled = call.node.cluster.controller_config.bool("delete.topic.enable")
    if not is_enabled or permissions.allows(Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME):
        return guard.handler(call, request)
    is_repeated = repetition(guard.api.key, request)
    disclosed: list[str | None] = []

    def refusal_of(state: Any) -> KafkaError | None:
        name, topic_id = state.name, state.topic_id
        is_by_name = name is not None
        if is_by_name == (topic_id != ZERO_UUID) or is_repeated(state):
            return None  # invalid: the handler refuses it
        if not is_by_name:
            check_timeout(request.timeout_ms)  # the controller looks ids up first
            name = image.topic_name(topic_id)
        if name is None or permissions.allows(Operation.DELETE, Resource.TOPIC, name):
            return None
        may_describe = permissions.allows(Operation.DESCRIBE, Resource.TOPIC, name)
        if is_by_name and may_describe and name not in image.topics:
            return None
        disclosed.append(name if is_by_name or may_describe else None)
        error = permissions.refusal(Operation.DELETE, Resource.TOPIC, name)
        error.message = error.code.message
        return error

    def disclose_names(rows: list[Any]) -> None:
        for row, name in zip(rows, disclosed, strict=True):
            row.name = name

    return guard.serve_rows(call, request, refusal_of, complete=disclose_names)


# Delegation tokens


def create_delegation_token(
    guard: Guard, call: Call, permissions: Permissions, request: Any
) -> Any:
    """Serve CreateDelegationToken: the node checks an owner before the controller does."""
    at_node = guard.permissions_at_node(call)
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if at_node.acls is not permissions.acls and not at_node.allows(
        Operation.CREATE_TOKENS, Resource.USER, owner
    ):
        call.context.permissions = at_node
    return guard.handler(call, request)


# Configurations


def _config_resource(kind: int, name: str) -> tuple[Resource, str] | None:
    """Return the resource whose permissions protect a setting; None for an unknown type."""
    if kind == ResourceType.TOPIC:
        return Resource.TOPIC, name
    if kind == ResourceType.GROUP:
        return Resource.GROUP, name
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS):
        return Resource.CLUSTER, CLUSTER_NAME
    return None


def _config_refusal(
    permissions: Permissions, operation: Operation, requested: Any
) -> KafkaError | None:
    """Return the error of a resource whose settings the client may not use."""
    resource = _config_resource(requested.resource_type, requested.resource_name)
    return None if resource is None else refusal_unless_allowed(permissions, operation, *resource)


def describe_configs(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve DescribeConfigs; refused resources are last. An unknown type fails the request."""
    if any(
        _config_resource(each.resource_type, each.resource_name) is None
        for each in request.resources
    ):
        return guard.handler(call, request)
    return guard.serve_rows(
        call, request, partial(_config_refusal, permissions, Operation.DESCRIBE_CONFIGS)
    )


def alter_configs(guard: Guard, call: Call, permissions: Permissions, request: Any) -> Any:
    """Serve AlterConfigs and IncrementalAlterConfigs; invalid resources are refused as such.

    The node checks the changes of its loggers, and the controller all others.
    """
    at_node = guard.permissions_at_node(call)
    is_repeated = repetition(guard.api.key, request)

    def refusal_of(each: Any) -> KafkaError | None:
        is_logger = each.resource_type == ResourceType.BROKER_LOGGER
        error = _config_refusal(
            at_node if is_logger else permissions, Operation.ALTER_CONFIGS, each
        )
        if error is None or is_repeated(each):
            return None
        return None if _is_invalid(call, each) else error

    rules = call.node.config.release.rules
    without_text = (
        (ResourceType.BROKER_LOGGER, ResourceType.BROKER)
        if rules.omits_text_of_refused_broker_changes
        else (ResourceType.BROKER_LOGGER,)
    )

    def remove_texts(rows: list[Any]) -> None:
        for row in rows:
            if row.resource_type in without_text:
                row.error_message = None

    return guard.serve_rows(call, request, refusal_of, complete=remove_texts)


def alter_configs_at_controller(
    guard: Guard, call: Call, permissions: Permissions, request: Any
) -> Any:
    """Serve AlterConfigs and IncrementalAlterConfigs of a client of the controller.

    Unlike at a broker, the levels of loggers need CLUSTER_ACTION, and every refused row has a text.
    The rows of refused loggers are the last ones, all other refused rows are the first ones.
    """
    is_repeated = repetition(guard.api.key, request)

    def is_logger(each: Any) -> bool:
        return bool(each.resource_type == ResourceType.BROKER_LOGGER)

    def refusal_of_logger(each: Any) -> KafkaError | None:
        # The handler of AlterConfigs refuses a logger, as an unexpected type.
        if not is_logger(each) or guard.api.key == ApiKey.ALTER_CONFIGS:
            return None
        return _config_refusal(permissions, Operation.CLUSTER_ACTION, each)

    def refusal_of_other(each: Any) -> KafkaError | None:
        if is_logger(each) or is_repeated(each):
            return None
        return _config_refusal(permissions, Operation.ALTER_CONFIGS, each)

    def serve_others(call: Call, request: Any) -> Any:
        return guard.serve_rows(call, request, refusal_of_other, position=Position.FIRST)

    return guard.serve_rows(
        call, request, refusal_of_logger, position=Position.LAST, handler=serve_others
    )


def _is_invalid(call: Call, requested: Any) -> bool:
    """Whether the handler refuses a resource before its permissions matter."""
    from kafkalite.apis.configs.alter import check_row

    try:
        check_row(call, requested)
    except KafkaError:
        return True
    return False
