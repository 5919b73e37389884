"""Fetch: returns batches of partitions, after waiting for `min_bytes` (KIP-74, 227, 320, 392)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal_of_topic, report_refused_topics
from kafkalite.partitions.fetching import Fetch, FetchEra
from kafkalite.partitions.incarnations import IncarnationCheck
from kafkalite.ports.turns import ELEMENTS_PER_PAUSE
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.message import with_fields
from kafkalite.protocol.rows import refusal
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions
from kafkalite.security.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.partitions.table import HostedTopic
    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.permissions import Permissions

_FIRST_ERA = FetchEra(
    knows_storage_errors=False,
    reads_from_followers=False,
    uses_topic_ids=False,
    reports_leaders=False,
    knows_zstd=False,
)
_MAGIC_0, _MAGIC_1 = 0, 1
FETCH_ERAS = Eras(
    (0, replace(_FIRST_ERA, message_format=_MAGIC_0, has_hard_limit=True)),
    # KIP-32: messages have timestamps.
    (2, replace(_FIRST_ERA, message_format=_MAGIC_1, has_hard_limit=True)),
    # KIP-74: the first batch is always returned.
    (3, replace(_FIRST_ERA, message_format=_MAGIC_1)),
    # KIP-98: batches.
    (4, _FIRST_ERA),
    # KIP-112: before v6 a client treats a failed disk as a fatal error.
    (6, replace(_FIRST_ERA, knows_storage_errors=True)),
    (10, replace(_FIRST_ERA, knows_storage_errors=True, knows_zstd=True)),
    # KIP-392: from v11 on, a consumer can fetch from any replica.
    (11, FetchEra(uses_topic_ids=False, reports_leaders=False)),
    # KIP-516: topic ids instead of names.
    (13, FetchEra(reports_leaders=False)),
    # KIP-951: answers contain the new leader.
    (16, FetchEra()),
)

_SESSION_ERRORS = frozenset((
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
))  # fmt: skip


def handle_fetch(call: Call, request: FetchRequest) -> FetchResponse | Waiting[FetchResponse]:
    """Return readable batches, after waiting up to `max_wait_ms` for `min_bytes`.

    Raises KafkaError if the session id or epoch is invalid (KIP-227).
    """
    node, permissions = call.node, call.context.permissions
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    access = incarnations = None
    if permissions is not None:
        access = _ReadAccess(call, permissions, is_replica=replica_id >= 0)
    if node.config.uses_partition_epochs:
        report = partial(report_refusal_of_topic, call, "Fetch")
        incarnations = IncarnationCheck(node.id, "Fetch", report)
    fetch = Fetch
    if not call.era.knows_zstd:
        from kafkalite.partitions.old_fetching import OldFetch  # noqa: PLC0415 - few clients need it

        fetch = OldFetch
    return fetch(call, request, replica_id, access, incarnations).respond()


class _ReadAccess:
    """The topics that the client of a request may read: see `ReadAccess`."""

    __slots__ = ("_call", "_is_replica", "_permissions", "_reported_topics")

    def __init__(self, call: Call, permissions: Permissions, *, is_replica: bool) -> None:
        self._call = call
        self._permissions = permissions
        self._is_replica = is_replica
        self._reported_topics: set[str] = set()

    def allows(self, topic: HostedTopic | None, requested: str | bytes) -> bool:
        """Return whether the client may read a topic, or the topic is unknown by this id."""
        permissions = self._permissions
        if self._is_replica:
            return permissions.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
        name = requested if topic is None else topic.name
        return isinstance(name, bytes) or permissions.allows(Operation.READ, Resource.TOPIC, name)

    def report_refusal(self, topic: HostedTopic | None, requested: str | bytes) -> None:
        """Report that the client may not read a topic; once, although a wait checks it again."""
        # A topic without a name is unknown, and not refused.
        name = str(requested) if topic is None else topic.name
        reported = self._reported_topics
        if not self._is_replica and name not in reported and len(reported) < MAX_REPORTED:
            reported.add(name)
            report_refused_topics(self._call, "Fetch", Operation.READ, (name,))


def _has_large_fetch_session(call: Call, request: FetchRequest) -> bool:
    """Return whether a short request is for a large fetch session."""
    if not request.session_id:
        return False
    node = call.node
    sessions = node.partitions.fetch_sessions(node.id)
    return sessions.size_of(request.session_id) > ELEMENTS_PER_PAUSE


def refuse_fetch(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    """Return the response with one error for the request, and for its partitions.

    For errors of the fetch session, partitions are omitted. The oldest versions have no field for
    the whole request. Topics have names before version 13 only; later ones are omitted.
    """
    if code in _SESSION_ERRORS:
        return FetchResponse(error_code=code)
    named = [with_fields(topic, topic_id=ZERO_UUID) for topic in request.topics if topic.topic]
    response: FetchResponse = refusal(
        FetchRequest.API_KEY, with_fields(request, topics=named), code, message
    )
    return response


APIS = (
    Api(
        key=FetchRequest.API_KEY,
        other_pausing_lists=frozenset(("forgotten_topics_data",)),
        versions=Versions(4, 18),
        handler=handle_fetch,
        inline_bytes=8 * 1024,
        may_take_long=_has_large_fetch_session,
        refusal=refuse_fetch,
        eras=FETCH_ERAS,
    ),
)
