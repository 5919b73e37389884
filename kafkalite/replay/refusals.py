"""Refusals: which recorded requests are not sent again, and why.

A request that the recorded broker turned away for a moment had no effect; the target, ready sooner,
would carry it out, and then once more when the recorded client's next try comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.replay.shapes import Shape

WITHOUT_SECRETS = "secrets are not replayed, nor are captures to hold them"
TURNED_AWAY = "the recorded broker turned it away for a moment, and it had no effect"
NOT_SERVED = "the target does not serve it"
CANNOT_BE_READ = "the capture does not have the whole request"
TOO_FAR_AHEAD = "its answer is further ahead in the capture than a replay looks"

SECRET_APIS: frozenset[int] = frozenset((17, 36))
"""SaslHandshake and SaslAuthenticate."""

_COORDINATOR = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)
_LEADER = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    )
)
_TRANSACTION = _COORDINATOR | {ErrorCode.CONCURRENT_TRANSACTIONS}

PASSING: Mapping[int, frozenset[ErrorCode]] = {
    0: _LEADER,
    8: _COORDINATOR,
    11: _COORDINATOR,
    14: _COORDINATOR,
    22: _TRANSACTION,
    24: _TRANSACTION,
    25: _TRANSACTION,
    26: _TRANSACTION,
    28: _COORDINATOR,
    68: _COORDINATOR,
    76: _COORDINATOR,
    88: _COORDINATOR,
}
"""API → the errors by which a broker asks to try again: Produce, OffsetCommit, JoinGroup,
SyncGroup, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit, and the
heartbeats of the newer groups."""


def was_turned_away(api_key: int, shape: Shape, response: Any) -> bool:  # noqa: ANN401 - any response
    """Whether a recorded response says that nothing was done, and to try again."""
    return _are_all_among(PASSING[api_key], shape, response)


AGAIN: Mapping[int, int] = {
    **dict.fromkeys(_TRANSACTION, 12),
    ErrorCode.LEADER_NOT_AVAILABLE: 12,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 12,
    # Said of an election that one side has not heard of; `Routing.again` asks about it.
    ErrorCode.FENCED_LEADER_EPOCH: 12,
    ErrorCode.UNKNOWN_LEADER_EPOCH: 12,
    # Said for a moment after a topic was made, and for ever where none was.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 6,
    ErrorCode.UNKNOWN_TOPIC_ID: 6,
}
"""Errors by which a target asks to try again, of what the recorded broker did at once → how often
it is asked."""

_SESSION_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


@dataclass(frozen=True, slots=True)
class Retry:
    """What of a request to a target is worth another try."""

    errors: Mapping[int, int] = field(default_factory=lambda: AGAIN)
    """The errors that ask for it → how often."""
    is_divisible: bool = False
    """Whether what was refused can be asked for alone; else it is all or nothing."""

    def tries(self, shape: Shape, response: Any) -> int:  # noqa: ANN401 - any response
        """Return how often to try what a target refused for a moment."""
        if not (self.is_divisible or _are_all_among(self.errors.keys(), shape, response)):
            return 0
        codes = error_codes(shape, response)
        return min((self.errors[code] for code in codes if code in self.errors), default=0)


OF_SESSIONS = Retry({**AGAIN, **dict.fromkeys(_SESSION_LOST, 2)}, is_divisible=True)
"""For a Fetch of which it is known what its session has come to, and can be asked without one."""


def _are_all_among(errors: Collection[int], shape: Shape, response: Any) -> bool:  # noqa: ANN401
    """Whether all that was asked for was refused, by these errors alone."""
    found = error_codes(shape, response)
    refused = [code for code in found if code]
    # An answer in rows says at its top that all is well.
    rows = found[1:] if len(found) > 1 and not found[0] else found
    return bool(refused) and len(refused) == len(rows) and all(each in errors for each in refused)


def error_codes(shape: Shape, response: Any) -> list[int]:  # noqa: ANN401 - any response
    """Return all error codes of a response."""
    found: list[int] = []
    _errors(shape, response, found)
    return found


def _errors(shape: Shape, message: Any, found: list[int]) -> None:  # noqa: ANN401 - any struct
    found += [
        getattr(message, leaf.name) for leaf in shape.leaves if leaf.name.endswith("error_code")
    ]
    for branch in shape.branches:
        inner = getattr(message, branch.name)
        for row in (inner or ()) if branch.is_list else (inner,):
            if row is not None:
                _errors(branch.shape, row, found)
