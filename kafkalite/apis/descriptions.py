"""Descriptions of groups: each group asked for is described, or comes with an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.apis.refusals import note_refusal
from kafkalite.apis.repeats import Repeats
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.apis.context import RequestContext
    from kafkalite.groups.shard import GroupShard

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: all that can be done with a group,
one bit per Kafka AclOperation."""

MOST_NOTED = 100
"""How many groups of one request may leave a note on why they were refused."""


class Described(Protocol):
    """A group in an answer, as far as all kinds of groups are described alike."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


class Describing(Protocol):
    """A request for descriptions."""

    group_ids: list[str]
    include_authorized_operations: bool


def describe_each(
    context: RequestContext,
    api: str,
    request: Describing,
    describe: Callable[[GroupShard, str], D],
    undescribed: Callable[[str, ErrorCode, str | None], D],
) -> list[D]:
    """Return what `describe` says of each group, or what `undescribed` makes of its KafkaError."""
    groups = []
    repeats = Repeats()
    for index, group_id in enumerate(request.group_ids):
        try:
            repeats.check(group_id)
            group = describe(_shard(context, group_id), group_id)
            if request.include_authorized_operations:
                group.authorized_operations = GROUP_OPERATIONS
        except KafkaError as refusal:
            if index < MOST_NOTED:
                note_refusal(context, api, group_id, refusal)
            group = undescribed(group_id, refusal.code, refusal.message)
        groups.append(group)
    return groups


def _shard(context: RequestContext, group_id: str) -> GroupShard:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    return context.services.groups.locate(group_id, context.node_id).machine
