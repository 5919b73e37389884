"""`describe_each`: describes the groups in a request; each group has its own error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.apis.authorized_operations import group_operations
from kafkalite.apis.duplicates import DuplicateLimit
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.rows import refused_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.call import Call
    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol.api_keys import ApiKey


class Described(Protocol):
    """The fields that descriptions of all group types have."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


class DescribeRequest(Protocol):
    """The fields that describe requests of all group types have."""

    group_ids: list[str]
    include_authorized_operations: bool


def describe_each(
    call: Call,
    key: ApiKey,
    request: DescribeRequest,
    describe: Callable[[GroupShard, str], D],
) -> list[D]:
    """Return the result of `describe` for each group, or a row with its KafkaError."""
    groups: list[D] = []
    duplicate_limit = DuplicateLimit()
    for position, group_id in enumerate(request.group_ids):
        try:
            duplicate_limit.check(group_id)
            group = describe(_shard(call, group_id), group_id)
            if request.include_authorized_operations:
                group.authorized_operations = group_operations(call, group_id)
        except KafkaError as refusal:
            if position < MAX_REPORTED:
                report_refusal(call, api_name(key), group_id, refusal)
            group = refused_row(key, 0, group_id, refusal.code, refusal.message)
        groups.append(group)
    return groups


def _shard(call: Call, group_id: str) -> GroupShard:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    return call.node.groups.locate(group_id, call.node.id).machine
