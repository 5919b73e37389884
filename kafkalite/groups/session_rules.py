"""Which requests renew the session of a group's member, as data.

The coordinators and the audits of captures follow this table. A renewal moves the end of a
session to one session timeout after the request or its answer. All other requests leave it as it
is: a refused request, a commit of a transaction, a fetch of records or offsets.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemberKind(Enum):
    """Kinds of members; each has a group protocol and a type of group."""

    CLASSIC = "a member of a classic group"
    UPGRADED = "a member of the classic protocol in a consumer group"
    CONSUMER = "a member of the consumer protocol"
    STREAMS = "a member of a streams group"
    SHARE = "a member of a share group"


class Renewal(NamedTuple):
    """A request that renews sessions, and the error codes of the answers that do."""

    kind: MemberKind
    api: ApiKey
    codes: frozenset[ErrorCode]
    when: str = "it is accepted"


_ACCEPTED: Final = frozenset({ErrorCode.NONE})
_ACCEPTED_OR_ASKED_TO_REJOIN: Final = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})

RENEWALS: Final = (
    Renewal(
        MemberKind.CLASSIC,
        ApiKey.JOIN_GROUP,
        _ACCEPTED,
        "its generation begins; until then the session does not end. The answer that repeats the"
        " current generation renews nothing",
    ),
    Renewal(
        MemberKind.CLASSIC,
        ApiKey.SYNC_GROUP,
        _ACCEPTED_OR_ASKED_TO_REJOIN,
        "it has waited for the leader; until then the session does not end. An immediate answer"
        " renews nothing",
    ),
    Renewal(MemberKind.CLASSIC, ApiKey.HEARTBEAT, _ACCEPTED_OR_ASKED_TO_REJOIN),
    Renewal(
        MemberKind.CLASSIC,
        ApiKey.OFFSET_COMMIT,
        _ACCEPTED,
        "its generation is accepted; the error codes of partitions do not matter",
    ),
    Renewal(MemberKind.UPGRADED, ApiKey.JOIN_GROUP, _ACCEPTED),
    Renewal(MemberKind.UPGRADED, ApiKey.SYNC_GROUP, _ACCEPTED),
    Renewal(MemberKind.UPGRADED, ApiKey.HEARTBEAT, _ACCEPTED_OR_ASKED_TO_REJOIN),
    Renewal(MemberKind.CONSUMER, ApiKey.CONSUMER_GROUP_HEARTBEAT, _ACCEPTED),
    Renewal(MemberKind.STREAMS, ApiKey.STREAMS_GROUP_HEARTBEAT, _ACCEPTED),
    Renewal(MemberKind.SHARE, ApiKey.SHARE_GROUP_HEARTBEAT, _ACCEPTED),
)
"""All requests that renew sessions."""

RENEWING_CODES: Final[Mapping[ApiKey, frozenset[ErrorCode]]] = {
    renewal.api: renewal.codes for renewal in reversed(RENEWALS)
}
"""API → error codes of answers that renew a session; in a classic group where kinds differ."""

COMMIT_REFUSALS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Error codes that refuse a whole OffsetCommit; other codes concern one partition."""

ENDED_CODES: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""Error codes of a member that is no longer in its group."""
