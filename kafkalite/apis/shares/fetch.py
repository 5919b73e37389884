"""ShareFetch: returns records to a member of a share group, or waits for some (KIP-932).

Records are read first and then acquired; records that cannot be acquired remain available to other
members. A waiting fetch holds no records and no locks; its partitions notify it of changes.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.apis.shares.acknowledgements import (
    SHARE_ERAS,
    AcknowledgeResult,
    acknowledge,
    end_sessions_on_close,
    fill_in_leaders,
    lock_duration_ms,
    session_key,
)
from kafkalite.apis.shares.groups import check_group_id, check_share_groups_enabled
from kafkalite.apis.shares.reading import (
    LocatedSharePartition,
    RequestedSharePartition,
    ShareReader,
    locate,
    response_limit_bytes,
    rotate,
)
from kafkalite.gateway.api import MAX_ELEMENTS_WITH_OWN_LIMITS, Api
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting, chain, gather
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.shares.acquisition import AcquireRequest
from kafkalite.shares.sessions import FINAL_EPOCH, SessionKey, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.ports.clock import Timer
    from kafkalite.shares.sessions import ShareFetchContext

AcknowledgeResults: TypeAlias = "Mapping[TopicPartition, AcknowledgeResult]"
PartitionData = ShareFetchResponse.PartitionData
Rows = dict[TopicPartition, PartitionData]

_BATCH_OPTIMIZED, _RECORD_LIMIT = 0, 1
_ACQUIRE_MODES = frozenset((_BATCH_OPTIMIZED, _RECORD_LIMIT))


def handle_share_fetch(
    call: Call, request: ShareFetchRequest
) -> ShareFetchResponse | Waiting[ShareFetchResponse]:
    """Apply acknowledgements of earlier records, and return newly acquired ones.

    Raises KafkaError if the share session or its epoch is invalid, or if share groups are disabled.
    """
    node = call.node
    check_share_groups_enabled(node)
    key = session_key(request)
    is_renewal = _is_renewal(call, request)
    topics = node.image.topics_by_id
    acknowledges = any(
        row.acknowledgement_batches for topic in request.topics for row in topic.partitions
    )
    try:
        session = node.share_partitions.sessions(node.id).begin_fetch(
            key,
            request.share_session_epoch,
            [
                (
                    TopicPartition(topic.topic_id, row.partition_index),
                    topics[topic.topic_id].name if topic.topic_id in topics else None,
                )
                for topic in request.topics
                for row in topic.partitions
            ],
            [
                TopicPartition(topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ],
            acknowledges=acknowledges,
            connection=call.context,
        )
    except KafkaError as refusal:
        if refusal.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            raise
        return _refuse_later(node, refusal, request.max_wait_ms)
    end_sessions_on_close(call, key.group_id)
    is_final = request.share_session_epoch == FINAL_EPOCH

    def fetch(results: AcknowledgeResults) -> ShareFetchResponse | Waiting[ShareFetchResponse]:
        builder = _ResponseBuilder(call, key, session, results, is_final)
        return builder.response({}) if is_renewal else _fetch(call, request, key, session, builder)

    return chain(acknowledge(call, request, request.topics, key) if acknowledges else {}, fetch)


def _is_renewal(call: Call, request: ShareFetchRequest) -> bool:
    """Return whether the request renews locks.

    Raises KafkaError INVALID_REQUEST if it fetches records as well.
    """
    if not (call.era.knows_renewal and request.is_renew_ack):
        return False
    if request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Nothing can be fetched while locks are renewed."
        )
    return True


def _refuse_later(node: Node, refusal: KafkaError, wait_ms: int) -> Waiting[ShareFetchResponse]:
    """Refuse after `wait_ms`, because the member would otherwise retry immediately."""
    clock = node.clock
    timer = clock.wait_at(clock.now_ms() + max(0, wait_ms), lambda: waiting.refuse(refusal))
    waiting: Waiting[ShareFetchResponse] = Waiting(on_abandon=timer.cancel)
    return waiting


class _ResponseBuilder(NamedTuple):
    """The parts of a response other than records."""

    call: Call
    key: SessionKey
    session: ShareFetchContext
    acknowledge_results: Mapping[TopicPartition, AcknowledgeResult]
    ends_session: bool

    def response(self, rows: Rows) -> ShareFetchResponse:
        """Return the response with the partitions that the share session includes."""
        call = self.call
        node = call.node
        try:
            self.session.check()
        except KafkaError as error:
            return self._complete(ShareFetchResponse(error_code=error.code))
        included = {
            partition: row
            for partition, row in rows.items()
            if self.session.must_report(
                partition, has_records=bool(row.records), has_error=bool(row.error_code)
            )
        }
        for partition, result in self.acknowledge_results.items():
            row = included.setdefault(partition, PartitionData(partition_index=partition.index))
            row.acknowledge_error_code = result.code
            row.acknowledge_error_message = result.message
        response_rows = [(partition.topic_id, row) for partition, row in included.items()]
        response = ShareFetchResponse(
            node_endpoints=[
                ShareFetchResponse.NodeEndpoint(
                    node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
                )
                for each in fill_in_leaders(node, call.listener, response_rows)
            ]
        )
        by_topic = sorted(response_rows, key=lambda row: row[0])
        for topic_id, topic_rows in groupby(by_topic, key=lambda row: row[0]):
            response.responses.append(
                ShareFetchResponse.ShareFetchableTopicResponse(
                    topic_id=topic_id, partitions=[row for _, row in topic_rows]
                )
            )
        return self._complete(response)

    def _complete(self, response: ShareFetchResponse) -> ShareFetchResponse:
        node = self.call.node
        response.acquisition_lock_timeout_ms = lock_duration_ms(node, self.key.group_id)
        if self.ends_session:
            node.share_partitions.end_session(node.id, self.key)
        return response


def _fetch(
    call: Call,
    request: ShareFetchRequest,
    key: SessionKey,
    session: ShareFetchContext,
    builder: _ResponseBuilder,
) -> ShareFetchResponse | Waiting[ShareFetchResponse]:
    node = call.node
    requested, refused = locate(call, session.topic_names)
    rows: Rows = {
        partition: PartitionData(partition_index=partition.index, error_code=code)
        for partition, code in refused.items()
    }
    max_bytes = min(request.max_bytes, node.config.int("fetch.max.bytes"))
    if not requested or max_bytes == 0 or request.max_records == 0:
        return builder.response(rows)
    if request.share_acquire_mode not in _ACQUIRE_MODES:
        # Kafka fails with an internal exception for an unknown mode, after it opened the session.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return chain(
        _load_share_partitions(call, key, requested, rows),
        lambda loaded: _read(call.node, request, key, builder, rows, loaded, max_bytes=max_bytes),
    )


def _read(  # noqa: PLR0917 - the state of the fetch
    node: Node,
    request: ShareFetchRequest,
    key: SessionKey,
    builder: _ResponseBuilder,
    rows: Rows,
    loaded: list[LocatedSharePartition],
    *,
    max_bytes: int,
) -> ShareFetchResponse | Waiting[ShareFetchResponse]:
    if max_bytes < 0:
        # Kafka fails with an internal exception when it divides the size among the partitions.
        return builder.response(rows | _error_rows(loaded, ErrorCode.UNKNOWN_SERVER_ERROR))
    reader = ShareReader(
        node,
        rotate(loaded, request.share_session_epoch),
        AcquireRequest(
            key.member_id,
            request.max_records,
            request.batch_size,
            is_exact=request.share_acquire_mode == _RECORD_LIMIT,
        ),
        max_bytes=response_limit_bytes(node, max_bytes),
        min_bytes=min(request.min_bytes, max_bytes),
        committed=node.config.group_get(key.group_id, "share.isolation.level") == "read_committed",
    )
    if not reader.partitions:
        return builder.response(rows)
    read = reader.read_if_enough()
    if read is not None:
        return builder.response(rows | read)
    if request.max_wait_ms <= 0:
        return builder.response(rows | reader.read_available())
    return _WaitingFetch(reader, builder, rows).begin(node, request.max_wait_ms)


def _error_rows(loaded: list[LocatedSharePartition], code: ErrorCode) -> Rows:
    return {
        each.partition: PartitionData(partition_index=each.partition.index, error_code=code)
        for each in loaded
    }


def _load_share_partitions(
    call: Call, key: SessionKey, requested: list[RequestedSharePartition], rows: Rows
) -> list[LocatedSharePartition] | Waiting[list[LocatedSharePartition]]:
    """Return the share partitions; those that cannot be read are refused in `rows`."""
    results: list[LocatedSharePartition | Waiting[LocatedSharePartition] | Exception] = []
    for each in requested:
        try:
            results.append(each.begin(call, key.group_id))
        except KafkaError as error:
            results.append(error.without_traceback())

    def without_refused(
        results: Sequence[LocatedSharePartition | Exception],
    ) -> list[LocatedSharePartition]:
        loaded = []
        for request, result in zip(requested, results, strict=True):
            partition = request.partition
            if isinstance(result, LocatedSharePartition):
                loaded.append(result)
            elif isinstance(result, KafkaError):
                rows[partition] = PartitionData(
                    partition_index=partition.index, error_code=result.code
                )
            else:
                raise result
        return loaded

    return chain(gather(results), without_refused)


class _WaitingFetch:
    """A share fetch that waits for more records; it reads again after each change."""

    __slots__ = ("_builder", "_reader", "_rows", "_timer", "_waiting")

    def __init__(self, reader: ShareReader, builder: _ResponseBuilder, rows: Rows) -> None:
        self._reader = reader
        self._builder = builder
        self._rows = rows
        self._timer: Timer | None = None
        self._waiting: Waiting[ShareFetchResponse] = Waiting(on_abandon=self._stop_watching)

    def begin(self, node: Node, max_wait_ms: int) -> Waiting[ShareFetchResponse]:
        """Wait for at most `max_wait_ms`."""
        for each in self._reader.partitions:
            each.share.watch(self)
            each.log.watch(self)
        clock = node.clock
        self._timer = clock.wait_at(clock.now_ms() + max_wait_ms, self.on_change)
        return self._waiting

    def retry(self) -> None:
        """Answer if there are enough records now."""
        if not self._waiting.is_resolved:
            read = self._reader.read_if_enough()
            if read is not None:
                self._resolve(read)

    def on_append(self, size: int) -> None:
        """Answer if there are enough records now."""
        del size
        self.retry()

    def on_change(self) -> None:
        """Answer with the available records: the time is up, or a partition changed."""
        if not self._waiting.is_resolved:
            self._resolve(self._reader.read_available())

    def _resolve(self, read: Rows) -> None:
        self._stop_watching()
        self._waiting.resolve(self._builder.response(self._rows | read))

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for each in self._reader.partitions:
            each.share.unwatch(self)
            each.log.unwatch(self)


APIS = (
    Api(
        key=ShareFetchRequest.API_KEY,
        other_pausing_lists=frozenset(("forgotten_topics_data",)),
        max_elements=MAX_ELEMENTS_WITH_OWN_LIMITS,
        versions=Versions(1, 2),
        handler=handle_share_fetch,
        check_first=check_group_id,
        eras=SHARE_ERAS,
    ),
)
