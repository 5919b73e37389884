"""Retriable errors: requests that a replay skips, and requests that it retries.

A request that the recorded broker refused with a retriable error had no effect. The target may be
ready earlier and execute it. The recorded client's retry would then execute it a second time, so
the replay skips the refused attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.catalogue import ROWS, AnsweringNode, ChangedState, keys_where
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.lab.replay.comparison.shapes import Shape

NO_SECRETS = "captures do not contain the secrets of these requests"
REFUSED_WITH_RETRIABLE_ERROR = (
    "the recorded broker refused it with a retriable error, so it had no effect"
)
NOT_SERVED = "the target does not serve it"
INCOMPLETE_REQUEST = "the capture does not have the complete request"
BEYOND_LOOK_AHEAD = "its response is further ahead in the capture than the replay's look-ahead"

SECRET_APIS = keys_where(lambda row: row.is_authentication or row.request.credentials == "hmac")
"""The APIs whose requests are refused without the secrets in them: a password, or the HMAC of a
delegation token of the target."""

_COORDINATOR_ERRORS = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)
_LEADER_ERRORS = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    )
)
_TRANSACTION_ERRORS = _COORDINATOR_ERRORS | {ErrorCode.CONCURRENT_TRANSACTIONS}

_ERRORS_BY_NODE: Mapping[AnsweringNode, frozenset[ErrorCode]] = {
    AnsweringNode.PARTITION_LEADER: _LEADER_ERRORS,
    AnsweringNode.GROUP_COORDINATOR: _COORDINATOR_ERRORS,
    AnsweringNode.TRANSACTION_COORDINATOR: _TRANSACTION_ERRORS,
}
"""Answering node → the retriable errors that it returns without executing a request."""

_RETRIED_CHANGES = frozenset(
    (
        ChangedState.RECORDS,
        ChangedState.OFFSETS,
        ChangedState.MEMBERS,
        ChangedState.TRANSACTIONS,
        ChangedState.PRODUCERS,
    )
)
"""Kinds of changes whose requests clients retry after a retriable error."""

RETRIABLE_ERRORS: Mapping[int, frozenset[ErrorCode]] = {
    int(key): _ERRORS_BY_NODE[row.node]
    for key, row in ROWS.items()
    if row.changes in _RETRIED_CHANGES and row.node in _ERRORS_BY_NODE
}
"""API → the retriable errors that a broker returns without executing a request."""


def was_refused(api_key: int, shape: Shape, response: Any) -> bool:  # noqa: ANN401 - any response
    """Whether a recorded response has only retriable errors, so that the request had no effect."""
    return _are_all_refused(RETRIABLE_ERRORS[api_key], shape, response)


_OLD_EPOCH_ERRORS = frozenset(
    (
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.FENCED_LEADER_EPOCH,
    )
)


def has_old_epoch(shape: Shape, response: Any) -> bool:  # noqa: ANN401 - any response
    """Whether a recorded response refuses its request completely because of an old epoch."""
    return _are_all_refused(_OLD_EPOCH_ERRORS, shape, response)


RETRY_LIMITS: Mapping[int, int] = {
    **dict.fromkeys(_TRANSACTION_ERRORS, 12),
    ErrorCode.LEADER_NOT_AVAILABLE: 12,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 12,
    # One side does not know of an election yet; `Routing.resend` looks up the leader epoch.
    ErrorCode.FENCED_LEADER_EPOCH: 12,
    ErrorCode.UNKNOWN_LEADER_EPOCH: 12,
    # Returned shortly after the creation of a topic, and always for a topic that does not exist.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 6,
    ErrorCode.UNKNOWN_TOPIC_ID: 6,
}
"""Retriable error of the target for a request that succeeded in the capture → maximum retries."""

_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Conditions for retrying a request at a target."""

    errors: Mapping[int, int] = field(default_factory=lambda: RETRY_LIMITS)
    """Retriable error → maximum number of retries."""
    is_partly_retriable: bool = False
    """Whether to retry a request of which only a part was refused."""

    def max_retries(self, shape: Shape, response: Any) -> int:  # noqa: ANN401 - any response
        """Return the maximum number of retries for a request with this response."""
        if not (self.is_partly_retriable or _are_all_refused(self.errors.keys(), shape, response)):
            return 0
        codes = error_codes(shape, response)
        return min((self.errors[code] for code in codes if code in self.errors), default=0)


FETCH_RETRY_POLICY = RetryPolicy(
    {**RETRY_LIMITS, **dict.fromkeys(_SESSION_ERRORS, 2)}, is_partly_retriable=True
)
"""For a Fetch request that can be sent without a session, because its partitions are known."""


def _are_all_refused(errors: Collection[int], shape: Shape, response: Any) -> bool:  # noqa: ANN401
    """Whether all parts of the request were refused, and each with one of these errors."""
    codes = error_codes(shape, response)
    refused = [code for code in codes if code]
    # The top-level error code of a response with rows is NONE.
    rows = codes[1:] if len(codes) > 1 and not codes[0] else codes
    return bool(refused) and len(refused) == len(rows) and all(code in errors for code in refused)


def error_codes(shape: Shape, response: Any) -> list[int]:  # noqa: ANN401 - any response
    """Return all error codes of a response."""
    codes: list[int] = []
    _collect_error_codes(shape, response, codes)
    return codes


def _collect_error_codes(shape: Shape, message: Any, codes: list[int]) -> None:  # noqa: ANN401 - any struct
    codes += [getattr(message, leaf.name) for leaf in shape.leaves if leaf.is_error_code]
    for branch in shape.branches:
        inner = getattr(message, branch.name)
        for row in (inner or ()) if branch.is_list else (inner,):
            if row is not None:
                _collect_error_codes(branch.shape, row, codes)
