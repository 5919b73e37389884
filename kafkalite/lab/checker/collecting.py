"""Collector: makes the tables of a history from requests and their answers."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kafkalite.capture.reading.summary import named_topics
from kafkalite.lab.checker.fetched_batches import (
    FetchedBatch,
    FetchSessions,
    Topic,
    UnreadableBatchesError,
    batches_of,
    fetched_batches,
    is_commit_marker,
    topic_of,
)
from kafkalite.lab.checker.history import (
    Commit,
    CommittedOffset,
    Coverage,
    Delivery,
    Event,
    History,
    Lifetime,
    Marker,
    Outcome,
    Partition,
    PositionLookup,
    ProducerStart,
    Range,
    RecordDeletion,
    ShareReset,
    ShareSessionUse,
    TopicEvent,
    TransactionAddition,
    TransactionEnd,
    Undecided,
    Write,
)
from kafkalite.lab.checker.memberships import Memberships
from kafkalite.lab.checker.packed_rows import PackedRows, Shared
from kafkalite.lab.checker.share_rows import (
    acknowledgements,
    acquired_deliveries,
    changed_limits,
    described_limits,
    header_of,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.lab.checker.history import Client

T = TypeVar("T")
D = TypeVar("D", Delivery, Coverage)

_NO_ERROR: Final = int(ErrorCode.NONE)
_ACKNOWLEDGED: Final = frozenset((_NO_ERROR, int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)))
"""Errors of Produce with which the batch is in the log."""
_MEMBER_ERRORS: Final = frozenset((_NO_ERROR, int(ErrorCode.MEMBER_ID_REQUIRED)))
"""Errors of requests of members; with the second, the client has a member id and joins again."""
_READ_COMMITTED: Final = 1
_COMPACT: Final = "compact"
_TOPIC_RESOURCE: Final = 2

UNKNOWN_TOPICS: Final = "rows of topics whose name the history does not have"
UNREADABLE: Final = "answers with record batches that are damaged or have format 0 or 1"
UNKNOWN_POSITIONS: Final = "deliveries in fetch sessions that began before the history"
UNCLEAR_GROUPS: Final = "batches delivered to clients that are in no group, or in several"
UNCLEAR_MEMBERS: Final = "batches delivered to clients that several members may be"
UNDECODED: Final = "requests that cannot be decoded"
UNANSWERED: Final = "writes without an answer"


@dataclass(frozen=True, slots=True)
class Observation:
    """A request and its answer, decoded."""

    api_key: int
    request: Any
    """None if it cannot be decoded."""
    response: Any
    """None without an answer."""
    event: Event
    until_ns: int | None = None
    """Time of the last of equal requests that followed it and that are left out."""


class Collector:
    """Builds a history from observations, which come in the order of the answers."""

    def __init__(self) -> None:
        self._history = History.empty()
        self._names: dict[bytes, str] = {}
        self._incarnations: Counter[str] = Counter()
        self._incarnations_by_id: dict[bytes, int] = {}
        self._latest_ids: dict[str, bytes] = {}
        """Name → id of the topic that has it, unless the topic was deleted."""
        self._sessions = FetchSessions()
        self._memberships = Memberships()
        self._undecided: Counter[str] = Counter()
        self._askers: set[tuple[Client, str]] = set()
        """Clients that asked for committed offsets, with the groups."""
        self._used: set[tuple[str, str, int]] = set()
        """Group, topic and number of the partitions whose committed offsets were asked or set."""
        # The offsets that clients looked up and did not fetch from yet.
        self._looked_up: dict[Client, dict[Partition, int]] = {}

    def add(self, observation: Observation) -> None:
        """Add a request with its answer. Most APIs are of no interest to any rule."""
        event = observation.event
        self._history.requests += 1
        if observation.response is not None:
            self._add_names(observation.response, event)
            if cluster_id := getattr(observation.response, "cluster_id", None):
                self._history.cluster_ids.add(cluster_id)
        handle = self._HANDLERS.get(observation.api_key)
        if handle is None:
            return
        if observation.request is None:
            self._undecided[UNDECODED] += 1
            return
        sender = _COORDINATOR_SENDERS.get(observation.api_key)
        if sender is not None:
            self._note_use(event, getattr(observation.request, sender))
        handle(self, observation)

    def _add_names(self, response: Any, event: Event) -> None:
        """Add the names of topics; a name with another id is that of another incarnation."""
        for topic_id, name in named_topics(response):
            if topic_id in self._names:
                continue
            if name in self._latest_ids:
                self._end_incarnation(name, event)
            self._names[topic_id] = name
            self._incarnations_by_id[topic_id] = self._incarnations[name]
            self._latest_ids[name] = topic_id

    def _end_incarnation(self, name: str, event: Event) -> None:
        self._incarnations[name] += 1
        self._latest_ids.pop(name, None)
        self._history.topic_events.append(TopicEvent(event, name, Lifetime.DELETED))

    def _note_use(self, event: Event, sender: str | None) -> None:
        if sender:
            uses = self._history.first_uses.setdefault((sender, event.broker), {})
            uses.setdefault(event.connection, event.sent_ns)

    def _note_restart(self, event: Event, transactional_id: str | None) -> None:
        if transactional_id:
            self._note_use(event, transactional_id)
            restarts = self._history.restarts.setdefault((transactional_id, event.broker), {})
            restarts.setdefault(event.connection, []).append(event.sent_ns)

    def leave_undecided(self, reason: str) -> None:
        """Count what the history does not have."""
        self._undecided[reason] += 1

    def finish(self) -> History:
        """Return the history of all observations up to now.

        More can be added later. The history is valid until the next call.
        """
        history, undecided = self._history, Counter(self._undecided)
        history.sort()
        shared = self._shared_by_consumers(history)
        unclear: Counter[str] = Counter()
        deliveries = self._attributed(history.deliveries, shared, unclear)
        undecided += unclear
        undecided[UNANSWERED] += sum(each.outcome is Outcome.UNKNOWN for each in history.writes)
        return replace(
            history,
            deliveries=deliveries,
            coverages=self._attributed(history.coverages, shared, Counter()),
            undecided=[Undecided(*each) for each in sorted(undecided.items()) if each[1]],
        )

    def _shared_by_consumers(self, history: History) -> set[tuple[Client, Partition]]:
        """Return the partitions from which several consumers with the same client id fetched.

        A consumer fetches a partition on one connection at a time. So one of two connections that
        take turns is that of another consumer, which is in no group if the client has one member.
        """
        spans: dict[tuple[Client, Partition], dict[int, Range]] = defaultdict(dict)
        rows: Iterable[Delivery | Coverage] = chain(history.deliveries, history.coverages)
        for row in rows:
            if row.group is None and self._memberships.has_one_member(row.event.client):
                of_partition = spans[row.event.client, row.partition]
                at_ns = row.event.sent_ns
                first, last = of_partition.get(row.event.connection, (at_ns, at_ns))
                of_partition[row.event.connection] = Range(min(first, at_ns), max(last, at_ns))
        return {key for key, own in spans.items() if _overlap(own.values())}

    def _attributed(
        self,
        rows: PackedRows[D],
        shared: set[tuple[Client, Partition]],
        unclear: Counter[str],
    ) -> PackedRows[D]:
        """Return deliveries or coverages with the groups and members of their clients.

        A member asks for the committed offset of each partition that it gets. So another consumer
        with its client id fetches from a partition for which no client asked. Rows without a group
        or a member are counted in `unclear`.
        """
        groups, members = Shared(), Shared()
        for row in rows:
            group, member, client = row.group, row.member, row.event.client
            if group is None and (client, row.partition) not in shared:
                group, member = self._memberships.find(client, row.event.sent_ns)
                if group is not None and not self._reads(client, group, row.partition):
                    group = member = None
            groups.append(group)
            members.append(member)
            if group is None:
                unclear[UNCLEAR_GROUPS] += 1
            elif member is None:
                unclear[UNCLEAR_MEMBERS] += 1
        return rows.replaced(group=groups, member=members)

    def _reads(self, client: Client, group: str, partition: Partition) -> bool:
        """Return whether a client may have fetched from a partition as a member of a group."""
        is_used = (group, partition.topic, partition.number) in self._used
        return is_used or (client, group) not in self._askers

    def _partition(self, topic: Topic, number: int) -> Partition | None:
        """Return a partition; None, with a count, if the name of its topic is unknown."""
        name = self._names.get(topic) if isinstance(topic, bytes) else topic
        if not name:
            self._undecided[UNKNOWN_TOPICS] += 1
            return None
        return self._known_partition(name, topic, number)

    def _known_partition(self, name: str, topic: Topic, number: int) -> Partition:
        if isinstance(topic, bytes):
            return Partition(name, number, self._incarnations_by_id[topic])
        return Partition(name, number, self._incarnations[name])

    # -- writes ------------------------------------------------------------------------------

    def _add_produce(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        answers = {
            (topic_of(topic), row.index): row
            for topic in (() if response is None else response.responses)
            for row in topic.partition_responses
        }
        for topic in request.topic_data:
            for row in topic.partition_data:
                partition = self._partition(topic_of(topic), row.index)
                views = self._read(batches_of, row.records)
                if partition is None or views is None:
                    continue
                answer = answers.get((topic_of(topic), row.index))
                self._add_writes(event, partition, request, views, answer)

    def _add_writes(
        self, event: Event, partition: Partition, request: Any, views: Any, answer: Any
    ) -> None:
        error = _NO_ERROR if answer is None else answer.error_code
        outcome = _outcome(answer, error in _ACKNOWLEDGED)
        offset = -1 if outcome is not Outcome.ACCEPTED else answer.base_offset
        for view in views:
            batch = header_of(view)
            self._history.writes.append(
                Write(
                    event, partition, batch, request.transactional_id, outcome, error, offset,
                    request.acks != 0,
                )
            )  # fmt: skip
            if offset >= 0:
                offset += batch.records

    # -- deliveries --------------------------------------------------------------------------

    def _add_fetch(self, observation: Observation) -> None:
        request, response = observation.request, observation.response
        is_of_follower = request.replica_id >= 0 or (
            request.replica_state is not None and request.replica_state.replica_id >= 0
        )
        if response is None or response.error_code or is_of_follower:
            return
        positions = self._sessions.positions(observation.event.broker, request, response)
        for topic in response.responses:
            for row in topic.partitions:
                if row.records:
                    key = topic_of(topic), row.partition_index
                    self._undecided[UNKNOWN_POSITIONS] += positions is None
                    self._add_fetched(observation, row, key, (positions or {}).get(key))
        self._add_new_positions(observation)

    def _add_new_positions(self, observation: Observation) -> None:
        """Add coverages without records: of clients that continue at an offset they looked up."""
        event = observation.event
        looked_up = self._looked_up.get(event.client)
        if not looked_up:
            return
        failed = {
            (topic_of(topic), row.partition_index)
            for topic in observation.response.responses
            for row in topic.partitions
            if row.error_code
        }
        for topic in observation.request.topics:
            for row in topic.partitions:
                key = topic_of(topic), row.partition
                name = self._names.get(key[0]) if isinstance(key[0], bytes) else key[0]
                if not name or key in failed:
                    continue
                partition = self._known_partition(name, key[0], row.partition)
                if looked_up.get(partition) == row.fetch_offset:
                    del looked_up[partition]
                    start = row.fetch_offset
                    self._history.coverages.append(
                        Coverage(event, partition, start, start - 1, None, None)
                    )

    def _add_fetched(
        self, observation: Observation, row: Any, key: tuple[Topic, int], position: int | None
    ) -> None:
        partition = self._partition(*key)
        if partition is None:
            return
        batches = self._read(fetched_batches, row)
        if not batches:
            return
        start = batches[0].view.base_offset if position is None else position
        is_read_committed = observation.request.isolation_level == _READ_COMMITTED
        for each in batches:
            self._add_fetched_batch(observation.event, partition, each, start, is_read_committed)
        self._history.coverages.append(
            Coverage(observation.event, partition, start, batches[-1].view.last_offset, None, None)
        )

    def _add_fetched_batch(
        self,
        event: Event,
        partition: Partition,
        fetched: FetchedBatch,
        position: int,
        is_read_committed: bool,  # noqa: FBT001 - as in the request
    ) -> None:
        view = fetched.view
        if view.is_control:
            is_commit = is_commit_marker(view)
            if is_commit is not None:
                self._history.markers.append(
                    Marker(
                        event, partition, view.base_offset, view.producer_id, view.producer_epoch,
                        is_commit,
                    )
                )  # fmt: skip
            return
        if view.last_offset < position:
            return  # the consumer skips it
        self._history.deliveries.append(
            Delivery(
                event=event,
                partition=partition,
                batch=header_of(view),
                first_offset=max(position, view.base_offset),
                last_offset=view.last_offset,
                base_offset=view.base_offset,
                group=None,
                member=None,
                is_read_committed=is_read_committed,
                is_aborted=fetched.is_aborted,
            )
        )

    # -- groups ------------------------------------------------------------------------------

    def _add_membership(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        member = request.member_id or getattr(response, "member_id", None)
        epoch = getattr(request, "member_epoch", 1 if request.member_id else 0)
        if member and epoch < 0:
            self._memberships.note_leaving(event.client, request.group_id, member, event.sent_ns)
        elif member and response is not None and response.error_code in _MEMBER_ERRORS:
            self._memberships.note(
                event.client, request.group_id, member, event.sent_ns, is_new=not epoch
            )

    def _add_leaving(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        if response is not None and response.error_code:
            return
        members = [request.member_id, *(each.member_id for each in request.members)]
        for member in filter(None, members):
            self._memberships.note_leaving(event.client, request.group_id, member, event.sent_ns)

    def _add_commit(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        errors = {
            (topic_of(topic), row.partition_index): row
            for topic in (() if response is None else response.topics)
            for row in topic.partitions
        }
        if request.member_id:
            self._memberships.note(event.client, request.group_id, request.member_id, event.sent_ns)
        for topic in request.topics:
            for row in topic.partitions:
                key = topic_of(topic), row.partition_index
                partition, answer = self._partition(*key), errors.get(key)
                if partition is None:
                    continue
                error = _NO_ERROR if answer is None else answer.error_code
                self._used.add((request.group_id, partition.topic, partition.number))
                self._history.commits.append(
                    Commit(
                        event=event,
                        group=request.group_id,
                        member=request.member_id or "",
                        generation=request.generation_id_or_member_epoch,
                        partition=partition,
                        offset=row.committed_offset,
                        outcome=_outcome(answer, error == _NO_ERROR),
                        error_code=error,
                        producer_id=getattr(request, "producer_id", -1),
                        transactional_id=getattr(request, "transactional_id", None),
                        producer_epoch=getattr(request, "producer_epoch", -1),
                    )
                )

    def _add_offset_fetch(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        if response is None:
            return
        groups = [(each.group_id, each) for each in response.groups]
        asked = [each.group_id for each in request.groups] or [request.group_id]
        self._askers.update((event.client, group) for group in asked)
        for group, row in groups or [(request.group_id, response)]:
            for topic in row.topics:
                for each in topic.partitions:
                    partition = self._partition(topic_of(topic), each.partition_index)
                    if partition is None:
                        continue
                    self._used.add((group, partition.topic, partition.number))
                    if not each.error_code:
                        self._history.committed_offsets.append(
                            CommittedOffset(
                                event, group, partition, each.committed_offset,
                                request.require_stable,
                            )
                        )  # fmt: skip

    def _add_lookup(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        timestamps = {
            (topic.name, row.partition_index): row.timestamp
            for topic in request.topics
            for row in topic.partitions
        }
        for topic in () if response is None else response.topics:
            for row in topic.partitions:
                partition = self._partition(topic.name, row.partition_index)
                key = topic.name, row.partition_index
                if partition is not None and not row.error_code and key in timestamps:
                    self._history.lookups.append(
                        PositionLookup(event, partition, timestamps[key], row.offset)
                    )
                    self._looked_up.setdefault(event.client, {})[partition] = row.offset

    def _read(self, batches_of_one: Callable[[Any], Iterable[T]], row: Any) -> list[T] | None:
        """Return the batches of one row; None, and count the row, if they cannot be read."""
        try:
            return [*batches_of_one(row)]
        except UnreadableBatchesError:
            self._undecided[UNREADABLE] += 1
            return None

    # -- share groups ------------------------------------------------------------------------

    def _add_share_fetch(self, observation: Observation) -> None:
        self._add_acknowledgements(observation)
        request, response, event = observation.request, observation.response, observation.event
        if response is None or response.error_code:
            return
        group, member = request.group_id or "", request.member_id or ""
        for topic in response.responses:
            for row in topic.partitions:
                if not row.records or not row.acquired_records:
                    continue
                partition = self._partition(topic_of(topic), row.partition_index)
                views = self._read(batches_of, row.records)
                if partition is not None and views is not None:
                    self._history.deliveries += acquired_deliveries(
                        event, partition, group, member, views, row.acquired_records
                    )

    def _add_acknowledgements(self, observation: Observation) -> None:
        """Add the acknowledgements in ShareAcknowledge or ShareFetch, and the use of a session."""
        request, response, event = observation.request, observation.response, observation.event
        error = None if response is None else response.error_code
        rows = {
            (topic_of(topic), row.partition_index): row
            for topic in (() if response is None else response.responses)
            for row in topic.partitions
        }
        is_fetch = observation.api_key == int(ApiKey.SHARE_FETCH)
        for topic in request.topics:
            for row in topic.partitions:
                key = topic_of(topic), row.partition_index
                answer, own_error = rows.get(key), error
                if answer is not None and not error:
                    own_error = answer.acknowledge_error_code if is_fetch else answer.error_code
                partition = self._partition(*key) if row.acknowledgement_batches else None
                if partition is not None:
                    self._history.acknowledgements += acknowledgements(
                        event, partition, request, row, own_error
                    )
        self._history.share_session_uses.append(
            ShareSessionUse(
                event=event,
                group=request.group_id or "",
                member=request.member_id or "",
                session_epoch=request.share_session_epoch,
                outcome=_outcome(response, not error),
            )
        )

    def _add_share_reset(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        if response is not None and not response.error_code:
            self._history.share_resets += (
                ShareReset(event, request.group_id, topic.topic_name) for topic in request.topics
            )

    def _add_described_limits(self, observation: Observation) -> None:
        if observation.response is not None:
            self._history.delivery_limits.update(described_limits(observation.response))
            self._add_policies(
                (each.resource_type, each.resource_name, each.configs)
                for each in observation.response.results
            )

    def _add_changed_limits(self, observation: Observation) -> None:
        if observation.response is not None and not observation.request.validate_only:
            self._history.delivery_limits.update(changed_limits(observation.request))
            self._add_changed_policies(observation)

    def _add_changed_policies(self, observation: Observation) -> None:
        if not observation.request.validate_only:
            self._add_policies(
                (each.resource_type, each.resource_name, each.configs)
                for each in observation.request.resources
            )

    def _add_policies(self, resources: Iterable[tuple[int, str, Iterable[Any]]]) -> None:
        """Add topics that are, or become, compacted. One that was compacted lacks records."""
        for kind, name, configs in resources:
            if kind == _TOPIC_RESOURCE and _is_compacted(configs):
                self._history.compacted_topics.add(name)

    # -- transactions and topics -------------------------------------------------------------

    def _add_producer_start(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        if response is not None and not response.error_code:
            self._note_restart(event, request.transactional_id)
            self._history.producer_starts.append(
                ProducerStart(
                    event, request.transactional_id, response.producer_id, response.producer_epoch
                )
            )

    def _add_transaction_end(self, observation: Observation) -> None:
        request, response = observation.request, observation.response
        error = _NO_ERROR if response is None else response.error_code
        self._history.transaction_ends.append(
            TransactionEnd(
                event=observation.event,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                is_commit=request.committed,
                outcome=_outcome(response, error == _NO_ERROR),
                error_code=error,
            )
        )

    def _add_partition_addition(self, observation: Observation) -> None:
        request, response = observation.request, observation.response
        if not request.v3_and_below_transactional_id:
            return  # brokers send the other versions, to verify transactions
        rows = () if response is None else response.results_by_topic_v3_and_below
        errors = [row.partition_error_code for topic in rows for row in topic.results_by_partition]
        self._history.transaction_additions.append(
            TransactionAddition(
                event=observation.event,
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                targets=frozenset(
                    f"{topic.name}-{number}"
                    for topic in request.v3_and_below_topics
                    for number in topic.partitions
                ),
                outcome=_outcome(response, not any(errors)),
            )
        )

    def _add_offsets_addition(self, observation: Observation) -> None:
        request, response = observation.request, observation.response
        self._history.transaction_additions.append(
            TransactionAddition(
                event=observation.event,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                targets=frozenset((f"group {request.group_id}",)),
                outcome=_outcome(response, response is not None and not response.error_code),
            )
        )

    def _add_created_topics(self, observation: Observation) -> None:
        request, response, event = observation.request, observation.response, observation.event
        for topic in request.topics:
            if _is_compacted(topic.configs or ()):
                self._history.compacted_topics.add(topic.name)
        for row in () if response is None else response.topics:
            if not row.error_code and not request.validate_only:
                self._history.topic_events.append(TopicEvent(event, row.name, Lifetime.CREATED))

    def _add_deleted_records(self, observation: Observation) -> None:
        response, event = observation.response, observation.event
        for topic in () if response is None else response.topics:
            for row in topic.partitions:
                partition = self._partition(topic.name, row.partition_index)
                if partition is not None and not row.error_code:
                    deletion = RecordDeletion(event, partition, row.low_watermark)
                    self._history.record_deletions.append(deletion)

    def _add_deleted_topics(self, observation: Observation) -> None:
        response, event = observation.response, observation.event
        for row in () if response is None else response.responses:
            name = row.name or self._names.get(row.topic_id)
            if name and not row.error_code:
                self._end_incarnation(name, event)

    _HANDLERS: ClassVar[Mapping[int, Callable[[Collector, Observation], None]]] = {
        int(ApiKey.PRODUCE): _add_produce,
        int(ApiKey.FETCH): _add_fetch,
        int(ApiKey.JOIN_GROUP): _add_membership,
        int(ApiKey.HEARTBEAT): _add_membership,
        int(ApiKey.CONSUMER_GROUP_HEARTBEAT): _add_membership,
        int(ApiKey.STREAMS_GROUP_HEARTBEAT): _add_membership,
        int(ApiKey.LEAVE_GROUP): _add_leaving,
        int(ApiKey.OFFSET_COMMIT): _add_commit,
        int(ApiKey.TXN_OFFSET_COMMIT): _add_commit,
        int(ApiKey.OFFSET_FETCH): _add_offset_fetch,
        int(ApiKey.LIST_OFFSETS): _add_lookup,
        int(ApiKey.INIT_PRODUCER_ID): _add_producer_start,
        int(ApiKey.END_TXN): _add_transaction_end,
        int(ApiKey.ADD_PARTITIONS_TO_TXN): _add_partition_addition,
        int(ApiKey.ADD_OFFSETS_TO_TXN): _add_offsets_addition,
        int(ApiKey.CREATE_TOPICS): _add_created_topics,
        int(ApiKey.DELETE_TOPICS): _add_deleted_topics,
        int(ApiKey.DELETE_RECORDS): _add_deleted_records,
        int(ApiKey.SHARE_FETCH): _add_share_fetch,
        int(ApiKey.SHARE_ACKNOWLEDGE): _add_acknowledgements,
        int(ApiKey.ALTER_SHARE_GROUP_OFFSETS): _add_share_reset,
        int(ApiKey.DELETE_SHARE_GROUP_OFFSETS): _add_share_reset,
        int(ApiKey.DESCRIBE_CONFIGS): _add_described_limits,
        int(ApiKey.INCREMENTAL_ALTER_CONFIGS): _add_changed_limits,
        int(ApiKey.ALTER_CONFIGS): _add_changed_policies,
    }
    """API → method that makes rows of its requests."""


def _overlap(ranges: Iterable[Range]) -> bool:
    return any(later.first < earlier.last for earlier, later in pairwise(sorted(ranges)))


def _is_compacted(configs: Iterable[Any]) -> bool:
    return any(each.name == "cleanup.policy" and _COMPACT in (each.value or "") for each in configs)


def _outcome(answer: Any, is_accepted: bool) -> Outcome:  # noqa: FBT001 - private
    if answer is None:
        return Outcome.UNKNOWN
    return Outcome.ACCEPTED if is_accepted else Outcome.REFUSED


_COORDINATOR_SENDERS: Final[Mapping[int, str]] = {
    int(ApiKey.HEARTBEAT): "member_id",
    int(ApiKey.CONSUMER_GROUP_HEARTBEAT): "member_id",
    int(ApiKey.STREAMS_GROUP_HEARTBEAT): "member_id",
    int(ApiKey.OFFSET_COMMIT): "member_id",
    int(ApiKey.END_TXN): "transactional_id",
    int(ApiKey.ADD_PARTITIONS_TO_TXN): "v3_and_below_transactional_id",
    int(ApiKey.ADD_OFFSETS_TO_TXN): "transactional_id",
}
"""API of coordinators → field with the id of its sender.

InitProducerId is missing, because a refused one may be that of another instance.
TxnOffsetCommit is missing: it goes to the coordinator of the group. JoinGroup is missing, because
franz-go has a connection of its own for it, which it uses at the same time as the other one."""

HANDLED_APIS: Final = frozenset(Collector._HANDLERS)  # noqa: SLF001 - of this module
"""The APIs whose requests a history has. Responses of others only name topics."""
MEMBERSHIP_APIS: Final = frozenset(
    key
    for key, handle in Collector._HANDLERS.items()  # noqa: SLF001 - of this module
    if handle is Collector._add_membership  # noqa: SLF001 - as above
)
"""The APIs of which a history only has that a member sent a request."""
