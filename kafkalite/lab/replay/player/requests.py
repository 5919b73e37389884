"""`OutgoingRequests`: creates the requests for the target, or returns the reason to skip them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.capture.reading.messages import (
    is_known,
    parse_request,
    parse_response,
    response_version,
)
from kafkalite.lab.replay.comparison.refusals import (
    NO_SECRETS,
    REFUSED_WITH_RETRIABLE_ERROR,
    RETRIABLE_ERRORS,
    SECRET_APIS,
    has_old_epoch,
    was_refused,
)
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.rewriting.requests import RequestRewriter, build_frame
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import entities_in_request, keys_where
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.lab.replay.comparison.shapes import Shape
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping
    from kafkalite.protocol.message import Message


_LONG_POLLS = keys_where(lambda row: row.request.max_wait_ms)
_CREATE_TOPICS = ApiKey.CREATE_TOPICS
_NO_NODE = -1
_EXPIRED_SHARE = 0.8
"""A long poll counts as expired if it took this share of its maximum wait."""


class OutgoingRequests:
    """Creates the requests for the target from recorded requests.

    The maximum wait of long polls that expired in the recording is divided by `wait_speedup`. If
    `wait_speedup` is 0, long polls do not wait.
    """

    def __init__(self, mapping: IdMapping, wait_speedup: float) -> None:
        self._mapping = mapping
        self._rewriter = RequestRewriter(mapping)
        self._wait_speedup = wait_speedup
        self._transactions = OpenTransactions()

    def skip_reason(self, exchange: Exchange) -> str | None:
        """Return the reason for not sending a request; None if it is to be sent."""
        api_key = exchange.api_key
        if api_key in SECRET_APIS:
            return NO_SECRETS
        if api_key in RETRIABLE_ERRORS and self._was_refused(exchange):
            # InitProducerId aborts an open transaction even if its own response is an error.
            aborts_transaction = api_key == INIT_PRODUCER_ID and self._transactions.is_open(
                exchange
            )
            if not aborts_transaction:
                return REFUSED_WITH_RETRIABLE_ERROR
        self._transactions.apply(exchange)
        return None

    def _was_refused(self, exchange: Exchange) -> bool:
        if exchange.response is None:
            return False
        api_key = exchange.api_key
        try:
            shape = shape_of(api_key, exchange.api_version, Direction.RESPONSE)
            return was_refused(api_key, shape, parse_response(exchange))
        except (ProtocolViolation, KeyError):
            return False

    def frame(self, exchange: Exchange) -> bytes:
        """Return the request for the target, without its length prefix.

        Raises ProtocolViolation if the request must be changed and is malformed.
        """
        if not is_known(exchange.api_key, exchange.api_version):
            return exchange.request  # the target may know this version
        shape = shape_of(exchange.api_key, exchange.api_version, Direction.REQUEST)
        may_shorten = self._may_shorten(exchange)
        must_limit_replicas = (
            exchange.api_key == _CREATE_TOPICS and self._mapping.node_counts is not None
        )
        may_name_cluster = exchange.api_key == ApiKey.API_VERSIONS
        if not (
            may_shorten
            or must_limit_replicas
            or may_name_cluster
            or self._rewriter.may_change(shape)
        ):
            return exchange.request
        request = parse_request(exchange)
        is_changed = self._rewriter.rewrite(
            shape, request, is_outdated=self._has_old_epoch(exchange, shape)
        )
        if may_shorten:
            is_changed |= self._shorten(exchange, request)
        if must_limit_replicas:
            is_changed |= self._limit_replicas(request)
        if may_name_cluster:
            is_changed |= self._omit_cluster(exchange, request)
        if not is_changed:
            return exchange.request
        return build_frame(
            exchange.request,
            exchange.request_start,
            request,
            exchange.api_key,
            exchange.api_version,
        )

    def _has_old_epoch(self, exchange: Exchange, shape: Shape) -> bool:
        """Whether the recorded broker refused the request because of an old epoch."""
        if exchange.response is None or not self._rewriter.has_changed_epochs(shape):
            return False
        try:
            response = parse_response(exchange)
        except ProtocolViolation:
            return False
        version = response_version(exchange.response, exchange.api_key, exchange.api_version)
        return has_old_epoch(shape_of(exchange.api_key, version, Direction.RESPONSE), response)

    def _limit_replicas(self, request: Any) -> bool:  # noqa: ANN401 - a CreateTopicsRequest
        """Reduce the number of replicas to the target's number of nodes."""
        assert self._mapping.node_counts is not None
        recorded, target = self._mapping.node_counts
        is_changed = False
        for topic in request.topics:
            if target < topic.replication_factor <= recorded:
                topic.replication_factor = target
                is_changed = True
            for row in topic.assignments:
                # Recorded nodes that map to the same node are one replica.
                replicas = list(dict.fromkeys(row.broker_ids))
                is_changed |= replicas != row.broker_ids
                row.broker_ids = replicas
        return is_changed

    def _omit_cluster(self, exchange: Exchange, request: Any) -> bool:  # noqa: ANN401 - an ApiVersionsRequest
        """Remove the recorded cluster and node, unless the request was refused because of them.

        The target is another cluster, and would refuse all of these requests.
        """
        if request.cluster_id is None or self._had_to_rebootstrap(exchange):
            return False
        request.cluster_id, request.node_id = None, _NO_NODE
        return True

    def _had_to_rebootstrap(self, exchange: Exchange) -> bool:
        if exchange.response is None:
            return False
        try:
            response: Any = parse_response(exchange)
        except ProtocolViolation:
            return False
        return bool(response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED)

    def _may_shorten(self, exchange: Exchange) -> bool:
        return (
            self._wait_speedup != 1.0
            and exchange.api_key in _LONG_POLLS
            and exchange.answered_ns is not None
            and exchange.answered_ns - exchange.sent_ns > NANOSECONDS_PER_MILLISECOND
        )

    def _shorten(self, exchange: Exchange, request: Message) -> bool:
        """Shorten a long poll if it expired in the recording; return whether it was shortened."""
        max_wait_ms: int = request.max_wait_ms  # type: ignore[attr-defined]  # both APIs have it
        assert exchange.answered_ns is not None
        waited_ms = (exchange.answered_ns - exchange.sent_ns) / NANOSECONDS_PER_MILLISECOND
        if waited_ms < _EXPIRED_SHARE * max_wait_ms:
            return False
        new_wait_ms = round(max_wait_ms / self._wait_speedup) if self._wait_speedup else 0
        request.max_wait_ms = max(1, new_wait_ms)  # type: ignore[attr-defined]
        return True


INIT_PRODUCER_ID = ApiKey.INIT_PRODUCER_ID
_TRANSACTIONAL_APIS = keys_where(lambda row: row.is_write and row.request.transactional_id)
_TRANSACTION_BEGIN_APIS = _TRANSACTIONAL_APIS - {INIT_PRODUCER_ID, ApiKey.END_TXN}
"""APIs that begin or continue a transaction."""
MAX_TRANSACTIONAL_IDS = 100_000


class OpenTransactions:
    """The transactional ids whose requests sent so far have begun a transaction."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def apply(self, exchange: Exchange) -> None:
        """Apply a request that is to be sent."""
        for transactional_id in _transactional_ids(exchange):
            if exchange.api_key not in _TRANSACTION_BEGIN_APIS:
                self._open.discard(transactional_id)
            elif len(self._open) < MAX_TRANSACTIONAL_IDS:
                self._open.add(transactional_id)

    def is_open(self, exchange: Exchange) -> bool:
        """Whether the request's transactional id has an open transaction."""
        return any(
            transactional_id in self._open for transactional_id in _transactional_ids(exchange)
        )


def _transactional_ids(exchange: Exchange) -> list[str]:
    if exchange.api_key not in _TRANSACTIONAL_APIS:
        return []
    try:
        request = parse_request(exchange)
    except ProtocolViolation:
        return []
    return list(entities_in_request(exchange.api_key, Entity.TRANSACTIONAL_ID, request))
