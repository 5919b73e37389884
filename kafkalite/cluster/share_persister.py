"""SharePersister: stores the state of share partitions by requests to share coordinators.

It is the counterpart of Kafka's DefaultStatePersister and PersisterStateManager. `NoSharePersister`
stores nothing, as Kafka's NoOpStatePersister. A method returns
its result directly if all nodes answer immediately, which they do unless a call between nodes is
delayed or lost. Otherwise the method returns a Waiting for the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.share.intents import InitializeShareState
from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import chunks
from kafkalite.ports.waiting import Waiting, chain, gather
from kafkalite.protocol._generated.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from kafkalite.protocol._generated.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from kafkalite.protocol._generated.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
)
from kafkalite.protocol._generated.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.state import (
    NO_START_OFFSET,
    LeaderState,
    ShareKey,
    ShareSummary,
    StateBatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.cluster.outbox import Outbox
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.groups.share.intents import SharePartitionInitialization
    from kafkalite.shares.state import StateChange

INITIAL_RETRY_BACKOFF_MS = 1_000
"""Kafka's PersisterStateManager.REQUEST_BACKOFF_MS; each retry waits twice as long."""
MAX_ATTEMPTS = 5
"""Kafka's PersisterStateManager.MAX_FIND_COORD_ATTEMPTS."""

_MAX_PARTITIONS_PER_REQUEST = 1_000
"""Maximum number of partitions of one request to a share coordinator, which does not pause."""

_RETRIABLE_ERRORS = frozenset((ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT))
"""Errors of a call without an answer; such a call is retried."""


class _StateApi(NamedTuple):
    """One of the APIs of share-group state; their messages have the same structure."""

    key: ApiKey
    request: Callable[..., Any]
    topic: Callable[..., Any]
    row: Callable[..., Any]


_INITIALIZE = _StateApi(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequest.InitializeStateData,
    InitializeShareGroupStateRequest.PartitionData,
)
_READ = _StateApi(
    ApiKey.READ_SHARE_GROUP_STATE,
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequest.ReadStateData,
    ReadShareGroupStateRequest.PartitionData,
)
_WRITE = _StateApi(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequest.WriteStateData,
    WriteShareGroupStateRequest.PartitionData,
)
_DELETE = _StateApi(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequest.DeleteStateData,
    DeleteShareGroupStateRequest.PartitionData,
)
_SUMMARY = _StateApi(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequest.ReadStateSummaryData,
    ReadShareGroupStateSummaryRequest.PartitionData,
)

Rows = dict[ShareKey, Any]
"""Share partition → row of a request or of a response, or a KafkaError."""


class SharePersister:
    """Reads and writes share-group state for one node."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def ensure_topic(self) -> None:
        """Create the topic of the states, unless it exists."""
        self._node.shares.ensure_topic(self._node.id)

    def read_state(self, key: ShareKey, leader_epoch: int) -> LeaderState | Waiting[LeaderState]:
        """Return the initial state for a leader; raises KafkaError as ShareShard.read."""
        rows = {key: _READ.row(partition=key.partition, leader_epoch=leader_epoch)}
        return chain(
            self._send_by_node(_READ, rows),
            lambda results: _leader_state(_require_result(results[key])),
        )

    def write_state(self, key: ShareKey, change: StateChange) -> Waiting[None] | None:
        """Write a change that the leader decided; raises KafkaError as ShareShard.write."""
        state_batch = WriteShareGroupStateRequest.StateBatch
        row = _WRITE.row(
            partition=key.partition,
            state_epoch=change.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=[
                state_batch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in change.batches
            ],
        )

        def check_result(results: Rows) -> None:
            _require_result(results[key])

        return chain(self._send_by_node(_WRITE, {key: row}), check_result)

    def initialize(
        self, group_id: str, initializations: Iterable[SharePartitionInitialization]
    ) -> Mapping[ShareKey, KafkaError] | Waiting[Mapping[ShareKey, KafkaError]]:
        """Initialize states at these offsets; return the errors of those that failed."""
        rows = {
            ShareKey(group_id, initialization.topic_id, initialization.partition): _INITIALIZE.row(
                partition=initialization.partition,
                state_epoch=initialization.state_epoch,
                start_offset=initialization.start_offset,
            )
            for initialization in initializations
        }
        return chain(self._send_by_node(_INITIALIZE, rows), _select_errors)

    def delete(
        self, group_id: str, partitions: Mapping[bytes, Iterable[int]]
    ) -> Mapping[ShareKey, KafkaError] | Waiting[Mapping[ShareKey, KafkaError]]:
        """Delete states, topic id → partitions; return the errors of those that failed."""
        rows = {key: _DELETE.row(partition=key.partition) for key in _keys(group_id, partitions)}
        return chain(self._send_by_node(_DELETE, rows), _select_errors)

    def summaries(
        self, group_id: str, partitions: Mapping[bytes, Iterable[int]]
    ) -> (
        Mapping[ShareKey, ShareSummary | KafkaError]
        | Waiting[Mapping[ShareKey, ShareSummary | KafkaError]]
    ):
        """Return the summary or the error of each state; `partitions`: topic id → partitions."""
        results = [
            self._send_by_node(
                _SUMMARY,
                {key: _SUMMARY.row(partition=key.partition, leader_epoch=-1) for key in keys},
            )
            for keys in chunks(tuple(_keys(group_id, partitions)), _MAX_PARTITIONS_PER_REQUEST)
        ]
        return chain(
            gather(results),
            lambda parts: {key: _summary(row) for key, row in _merge(*parts).items()},
        )

    def _send_by_node(self, api: _StateApi, rows: Rows, attempt: int = 1) -> Rows | Waiting[Rows]:
        """Send each row to the node that coordinates its partition, and return all results."""
        unknown: Rows = {}
        by_node: dict[int, Rows] = {}
        for key, row in rows.items():
            coordinator = self._coordinator_of(key)
            if coordinator is None:
                unknown[key] = KafkaError(ErrorCode.NOT_COORDINATOR)
            else:
                by_node.setdefault(coordinator, {})[key] = row
        if len(by_node) == 1 and not unknown:
            ((coordinator, node_rows),) = by_node.items()
            return self._send_to_node(api, coordinator, node_rows, attempt)
        results = [
            self._send_to_node(api, coordinator, node_rows, attempt)
            for coordinator, node_rows in by_node.items()
        ]
        return chain(gather(results), lambda parts: _merge(unknown, *parts))

    def _coordinator_of(self, key: ShareKey) -> int | None:
        """Return the node that coordinates a share partition; None if there is none."""
        node = self._node
        image = node.image.partition(SHARE_STATE_TOPIC, node.shares.partition_for(key.text))
        return None if image is None else image.leader

    def _send_to_node(
        self, api: _StateApi, coordinator: int, rows: Rows, attempt: int
    ) -> Rows | Waiting[Rows]:
        """Send rows to one node, with up to MAX_ATTEMPTS attempts if there is no answer."""

        def retry(error: Exception) -> Rows | Waiting[Rows]:
            if not isinstance(error, KafkaError):
                raise error
            is_retriable = error.code in _RETRIABLE_ERRORS and self._node.is_reachable
            if not is_retriable or attempt >= MAX_ATTEMPTS:
                return dict.fromkeys(rows, error.without_traceback())
            delay: Waiting[None] | None = self._node.delay(
                INITIAL_RETRY_BACKOFF_MS << (attempt - 1)
            )
            return chain(
                delay,
                lambda _: self._send_by_node(api, rows, attempt + 1),
                lambda _: dict.fromkeys(rows, error.without_traceback()),
            )

        try:
            answer = self._node.send(coordinator, api.key, _request(api, rows))
        except KafkaError as error:
            return retry(error)
        return chain(answer, lambda response: _results_by_key(rows, response), retry)


class NoSharePersister:
    """Stores no state: each leader of a share partition begins as if the group was new."""

    __slots__ = ()

    def ensure_topic(self) -> None:
        """Create no topic."""

    def read_state(self, key: ShareKey, leader_epoch: int) -> LeaderState:
        """Return the state of a new share partition."""
        del key, leader_epoch  # required parameters of a store
        return LeaderState(0, NO_START_OFFSET, ())

    def write_state(self, key: ShareKey, change: StateChange) -> None:
        """Accept a change without storing it."""

    def initialize(
        self, group_id: str, initializations: Iterable[SharePartitionInitialization]
    ) -> Mapping[ShareKey, KafkaError]:
        """Return no errors."""
        del group_id, initializations  # required parameters of a persister
        return {}

    def delete(
        self, group_id: str, partitions: Mapping[bytes, Iterable[int]]
    ) -> Mapping[ShareKey, KafkaError]:
        """Return no errors."""
        del group_id, partitions  # required parameters of a persister
        return {}

    def summaries(
        self, group_id: str, partitions: Mapping[bytes, Iterable[int]]
    ) -> Mapping[ShareKey, ShareSummary | KafkaError]:
        """Return the summaries of new share partitions."""
        return dict.fromkeys(_keys(group_id, partitions), ShareSummary())


def _merge(*parts: Rows | Exception) -> Rows:
    merged: Rows = {}
    for part in parts:
        if isinstance(part, Exception):
            raise part
        merged.update(part)
    return merged


def _keys(group_id: str, partitions: Mapping[bytes, Iterable[int]]) -> Iterator[ShareKey]:
    for topic_id, indexes in partitions.items():
        for index in indexes:
            yield ShareKey(group_id, topic_id, index)


def _request(api: _StateApi, rows: Rows) -> Any:  # noqa: ANN401 - one of five message classes
    by_topic: dict[bytes, list[Any]] = {}
    for key, row in rows.items():
        by_topic.setdefault(key.topic_id, []).append(row)
    return api.request(
        group_id=next(iter(rows)).group_id,
        topics=[
            api.topic(topic_id=topic_id, partitions=partition_rows)
            for topic_id, partition_rows in by_topic.items()
        ],
    )


def _results_by_key(rows: Rows, response: Any) -> Rows:  # noqa: ANN401 - one of five message classes
    """Return the row of each partition in a response, or its error."""
    response_rows = {
        (topic.topic_id, row.partition): row
        for topic in response.results
        for row in topic.partitions
    }
    results: Rows = {}
    for key in rows:
        row = response_rows.get((key.topic_id, key.partition))
        if row is None:
            results[key] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif row.error_code:
            results[key] = KafkaError(ErrorCode(row.error_code), row.error_message)
        else:
            results[key] = row
    return results


def _select_errors(results: Rows) -> Mapping[ShareKey, KafkaError]:
    return {key: row for key, row in results.items() if isinstance(row, KafkaError)}


def _require_result(row: Any) -> Any:  # noqa: ANN401 - a row of one of five message classes
    """Return a row of a response; if it is a KafkaError, raises it."""
    if isinstance(row, KafkaError):
        raise row
    return row


def _leader_state(row: ReadShareGroupStateResponse.PartitionResult) -> LeaderState:
    return LeaderState(
        row.state_epoch,
        row.start_offset,
        tuple(
            StateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in row.state_batches
        ),
    )


def _summary(row: Any) -> ShareSummary | KafkaError:  # noqa: ANN401 - a row, or a KafkaError
    if isinstance(row, KafkaError):
        return row
    return ShareSummary(
        row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count
    )


class ShareStateInitializer:
    """Carries out the InitializeShareState intents of share groups."""

    __slots__ = ("_groups", "_nodes")

    def __init__(self, nodes: Mapping[int, Node], groups: GroupCoordinator, outbox: Outbox) -> None:
        self._nodes = nodes
        self._groups = groups
        outbox.assign(InitializeShareState, self.initialize)

    def initialize(self, intent: InitializeShareState) -> Waiting[None] | None:
        """Initialize the state of partitions, then record that in the group.

        Raises KafkaError if that is not possible now. Partitions that the group no longer needs are
        skipped. So are states that an earlier attempt initialized, because acknowledgements since
        then must not be lost.
        """
        group_id = intent.group_id
        shard = self._groups.shard_for(group_id)
        needed = shard.read(lambda machine, _: machine.share.select_uninitialized(intent))
        if not needed.partitions:
            return None
        persister = self._nodes[shard.leader_id].share_persister

        def initialize_missing(
            summaries: Mapping[ShareKey, ShareSummary | KafkaError],
        ) -> Mapping[ShareKey, KafkaError] | Waiting[Mapping[ShareKey, KafkaError]]:
            for summary in summaries.values():
                _require_result(summary)
            missing = [
                initialization
                for initialization in needed.partitions
                if not _is_initialized(summaries[_key(group_id, initialization)], initialization)
            ]
            return persister.initialize(group_id, missing) if missing else {}

        def record_in_group(errors: Mapping[ShareKey, KafkaError]) -> None:
            for error in errors.values():
                raise error
            shard.write(
                lambda machine, now_ms: machine.share.record_initialized_state(needed, now_ms)
            )

        partitions: dict[bytes, list[int]] = {}
        for initialization in needed.partitions:
            partitions.setdefault(initialization.topic_id, []).append(initialization.partition)
        summaries = persister.summaries(group_id, partitions)
        return chain(chain(summaries, initialize_missing), record_in_group)


def _key(group_id: str, initialization: SharePartitionInitialization) -> ShareKey:
    return ShareKey(group_id, initialization.topic_id, initialization.partition)


def _is_initialized(
    summary: ShareSummary | KafkaError, initialization: SharePartitionInitialization
) -> bool:
    """Return whether a state of this epoch exists; a missing state has epoch 0 in its summary."""
    return (
        isinstance(summary, ShareSummary) and 0 < summary.state_epoch == initialization.state_epoch
    )
