"""Failures: what can happen to one request, and where Kafka can really do so.

A failure is applied by a fault, which makes its error true in the broker before the client gets it.
What a fault cannot make true is no failure. Data is not destroyed, because no program can restore
deleted records: OFFSET_OUT_OF_RANGE and UNKNOWN_TOPIC_ID are no failures therefore.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.gateway.true_errors import TRUE_ERRORS
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import AnsweringNode, ChangedState, row
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.possible_errors import possible_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.gateway.fault_rules import FaultFields
    from kafkalite.lab.sweep.requests import Partition, SeenRequest


DEFAULT_SESSION_TIMEOUT_MS: Final = 45_000
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseContext:
    """What a run without a failure shows about a cluster and its clients."""

    nodes: int = 1
    in_sync: Mapping[Partition, int] = field(default_factory=dict)
    """The number of replicas in sync."""
    modern_groups: frozenset[str] = frozenset()
    """The groups that use the protocol of KIP-848."""
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS


class FollowUp(Enum):
    """What happens after the fault has fired."""

    NONE = "nothing"
    RELEASE_AFTER_RETRY = "the held request is handled after the next one of its kind"
    RESTART = "the node is killed and started again"
    FILL_DISK = "the disk is full until a request was refused"
    SESSION = "the clock is moved by the session timeout"
    TRANSACTION = "the clock is moved by the transaction timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One way in which a request fails."""

    name: str
    text: str
    """What happens, as a sentence without its subject, which is the request."""
    action: FaultFields
    applies: Callable[[SeenRequest, CaseContext], bool]
    follow_up: FollowUp = FollowUp.NONE
    stalls: bool = False
    """Whether clients must wait for a timeout of their own, so that a slow run is no finding."""
    is_fatal: bool = False
    """Whether the client cannot continue, so that the program may end with an error."""
    is_of_partition: bool = False
    """Whether one partition of a request can fail alone."""


_GROUP_MEMBERSHIP: Final = frozenset(
    (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    )
)
"""APIs whose late requests add a member that does not exist any more, and for which others wait."""

_REPEATABLE: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.HEARTBEAT,
    )
)
"""APIs whose requests a client sends again unchanged if it does not know the outcome."""

_UNCHANGED_BY_LATE: Final = frozenset((
    ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, *_GROUP_MEMBERSHIP,
))  # fmt: skip

_IN_TRANSACTION: Final = frozenset((
    ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN,
))  # fmt: skip

_OF_MEMBERS: Final = frozenset((
    ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.SYNC_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.TXN_OFFSET_COMMIT,
))  # fmt: skip


def _is_write(request: SeenRequest, _: CaseContext) -> bool:
    return row(request.api_key).is_write


def _always(_: SeenRequest, __: CaseContext) -> bool:
    return True


def _is_repeatable(request: SeenRequest, _: CaseContext) -> bool:
    return request.api_key in _REPEATABLE


def _arrives_late(request: SeenRequest, _: CaseContext) -> bool:
    return row(request.api_key).is_write and request.api_key not in _UNCHANGED_BY_LATE


def _writes_records(request: SeenRequest, _: CaseContext) -> bool:
    return row(request.api_key).changes in {ChangedState.RECORDS, ChangedState.OFFSETS}


def _has_session(request: SeenRequest, context: CaseContext) -> bool:
    del context
    return request.api_key in _OF_MEMBERS and (request.epoch > 0 or request.names_member)


def _has_transaction(request: SeenRequest, _: CaseContext) -> bool:
    return request.api_key in _IN_TRANSACTION and bool(request.transactional_ids)


_WITH_CONNECTION: Final = (
    Failure(
        name="answer-lost",
        text="is handled, and its connection ends before the answer",
        action={"disconnect": "after"},
        applies=_is_write,
    ),
    Failure(
        name="request-lost",
        text="is lost with its connection",
        action={"disconnect": "before"},
        applies=_always,
    ),
    Failure(
        name="late",
        text="is lost with its connection, and handled after the next one of its kind",
        action={"hold": True, "late": True, "disconnect": "before"},
        applies=_arrives_late,
        follow_up=FollowUp.RELEASE_AFTER_RETRY,
    ),
    Failure(
        name="twice",
        text="is handled twice",
        action={"twice": True},
        applies=_is_repeatable,
    ),
)
_OF_NODES: Final = (
    Failure(
        name="killed-before",
        text="is lost with its node, which is killed and starts again",
        action={"hold": True},
        applies=_always,
        follow_up=FollowUp.RESTART,
    ),
    Failure(
        name="killed-after",
        text="is handled; its node is killed before the answer and starts again",
        action={"disconnect": "after"},
        applies=_is_write,
        follow_up=FollowUp.RESTART,
    ),
    Failure(
        name="disk-full",
        text="finds a full disk, which has space again after the refusal",
        action={"hold": True},
        applies=_writes_records,
        follow_up=FollowUp.FILL_DISK,
    ),
    Failure(
        name="session-expired",
        text="is handled after the sessions of all members have ended",
        action={"hold": True},
        applies=_has_session,
        follow_up=FollowUp.SESSION,
    ),
    Failure(
        name="transaction-expired",
        text="is handled after the transaction timeout",
        action={"hold": True},
        applies=_has_transaction,
        follow_up=FollowUp.TRANSACTION,
        is_fatal=True,
    ),
)
_STALLS: Final = (
    Failure(
        name="stalled",
        text="is handled, but not answered, and its connection stays open",
        action={"lost": "answer"},
        applies=_always,
        stalls=True,
    ),
)


def _is_of_member(request: SeenRequest, context: CaseContext) -> bool:
    if request.api_key in _GROUP_MEMBERSHIP - {ApiKey.SYNC_GROUP, ApiKey.JOIN_GROUP}:
        return request.epoch > 0
    del context
    return request.names_member


def _is_of_classic_member(request: SeenRequest, context: CaseContext) -> bool:
    is_modern = any(each in context.modern_groups for each in request.groups)
    return request.names_member and request.epoch >= 0 and not is_modern


def _is_of_modern_member(request: SeenRequest, context: CaseContext) -> bool:
    is_modern = any(each in context.modern_groups for each in request.groups)
    return request.names_member and request.epoch > 0 and is_modern


def _waits_for_generation(request: SeenRequest, context: CaseContext) -> bool:
    """Whether the member learns of a rebalance; a commit is accepted while members join."""
    is_waiting = request.api_key in {ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP}
    return is_waiting and _is_of_classic_member(request, context)


def _is_static(request: SeenRequest, _: CaseContext) -> bool:
    return request.names_instance and request.names_member


def _is_transactional(request: SeenRequest, _: CaseContext) -> bool:
    return request.api_key in _IN_TRANSACTION and bool(request.transactional_ids)


def _may_wait_for_markers(request: SeenRequest, _: CaseContext) -> bool:
    """Whether the markers of the transaction before may not be written yet."""
    return request.follows_end and request.api_key != ApiKey.END_TXN


def _has_coordinator(request: SeenRequest, _: CaseContext) -> bool:
    node = row(request.api_key).node
    return node in {AnsweringNode.GROUP_COORDINATOR, AnsweringNode.TRANSACTION_COORDINATOR}


def _has_other_coordinator(request: SeenRequest, context: CaseContext) -> bool:
    return context.nodes > 1 and _has_coordinator(request, context)


def _has_other_leader(request: SeenRequest, context: CaseContext) -> bool:
    if row(request.api_key).node is not AnsweringNode.PARTITION_LEADER:
        return False
    counts = [context.in_sync.get(each, 0) for each in request.partitions]
    return bool(counts) and min(counts) > 1


def _needs_all_replicas(request: SeenRequest, context: CaseContext) -> bool:
    counts = [context.in_sync.get(each, 0) for each in request.partitions]
    return request.acks == -1 and bool(counts) and min(counts) > 1


_FATAL: Final = frozenset((
    ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED,
))  # fmt: skip

_ERRORS: Final[Mapping[ErrorCode, Callable[[SeenRequest, CaseContext], bool]]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _has_other_leader,
    ErrorCode.NOT_COORDINATOR: _has_other_coordinator,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _has_coordinator,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _has_coordinator,
    ErrorCode.NOT_ENOUGH_REPLICAS: _needs_all_replicas,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _needs_all_replicas,
    ErrorCode.CONCURRENT_TRANSACTIONS: _may_wait_for_markers,
    ErrorCode.UNKNOWN_MEMBER_ID: _is_of_member,
    ErrorCode.ILLEGAL_GENERATION: _is_of_classic_member,
    ErrorCode.FENCED_MEMBER_EPOCH: _is_of_modern_member,
    ErrorCode.STALE_MEMBER_EPOCH: _is_of_modern_member,
    ErrorCode.REBALANCE_IN_PROGRESS: _waits_for_generation,
    ErrorCode.FENCED_INSTANCE_ID: _is_static,
    ErrorCode.PRODUCER_FENCED: _is_transactional,
    ErrorCode.INVALID_PRODUCER_EPOCH: _is_transactional,
}
"""The errors that are failures → where they can be true."""

MOMENTARY: Final = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    )
)
"""Errors about a state that has ended when the client tries again, so nothing has to be changed."""


def _error(code: ErrorCode, applies: Callable[[SeenRequest, CaseContext], bool]) -> Failure:
    def is_possible(request: SeenRequest, context: CaseContext) -> bool:
        possible = possible_errors(ApiKey(request.api_key))
        return code in possible and applies(request, context)

    known = TRUE_ERRORS.get(code)
    return Failure(
        name=code.name,
        text=f"gets {code.name}" + ("" if known is None else f". {known.state}"),
        action={"error": code.name},
        applies=is_possible,
        is_fatal=code in _FATAL,
        is_of_partition=True,
    )


FAILURES: Final[Mapping[str, Failure]] = {
    each.name: each
    for each in (
        *_WITH_CONNECTION,
        *(_error(code, applies) for code, applies in _ERRORS.items()),
        *_OF_NODES,
        *_STALLS,
    )
}
"""Name → failure, the most informative first."""
