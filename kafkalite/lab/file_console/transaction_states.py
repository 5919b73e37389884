"""TransactionStates: what captures show of transactional ids: states, epochs and refusals."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.control.commands.transactions import TransactionAnswer
from kafkalite.control.console.source import TransactionMoment
from kafkalite.control.group_status import TopicPartitions
from kafkalite.coordinator.event_history import Entry
from kafkalite.lab.checker.fetched_batches import topic_of
from kafkalite.lab.checker.groups.requests import milliseconds, time_of
from kafkalite.lab.checker.groups.timeline import kind_of_error
from kafkalite.ports.times import iso_of
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.lab.checker.collecting import Observation

MAX_IDS: Final = 100_000
"""The maximum number of transactional ids whose states are known."""
MAX_MOMENTS: Final = 400
MAX_ENTRIES: Final = 128
"""The maximum number of states, and of events, of a transactional id, the latest."""

_EMPTY, _ONGOING = "Empty", "Ongoing"
_ENDED: Final = {True: "CompleteCommit", False: "CompleteAbort"}
_INITIALIZED: Final = "initialized"


class TransactionState:
    """The state of a transactional id after some requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = ""
        self.producer_id = self.producer_epoch = -1
        self.timeout_ms = 0
        self.client_id: str | None = None
        self.client_host: str | None = None
        self.started_ms: int | None = None
        self.partitions: set[tuple[str, int]] = set()
        self.moments: deque[TransactionMoment] = deque(maxlen=MAX_MOMENTS)
        self.entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._count = 0

    def note(self, at_ms: int, state: str) -> None:
        """Note a state, if it or the number of partitions changed."""
        moment = TransactionMoment(
            at_ms, state, self.producer_id, self.producer_epoch, len(self.partitions)
        )
        if not self.moments or self.moments[-1][1:] != moment[1:]:
            self.moments.append(moment)
        if state == _ONGOING and self.state != _ONGOING:
            self.started_ms = at_ms
        self.state = state

    def note_entry(self, at_ms: int, kind: str, text: str, facts: Mapping[str, Any]) -> None:
        """Add an event."""
        self._count += 1
        self.entries.append(
            Entry(
                number=self._count,
                group=None,
                transactional_id=self.name,
                topic=None,
                client=None,
                kind=kind,
                text=text,
                facts=facts,
                times=1,
                first_ms=at_ms,
                at_ms=at_ms,
            )
        )

    def answer(self, now_ms: int) -> TransactionAnswer:
        """Return the transactional id as in a list."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(number)
        is_open = self.state == _ONGOING and self.started_ms is not None
        return TransactionAnswer(
            transactional_id=self.name,
            state=self.state or "Unknown",
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            partitions=tuple(TopicPartitions(each, tuple(by_topic[each])) for each in by_topic),
            timeout_ms=self.timeout_ms,
            started_iso=None if self.started_ms is None else iso_of(self.started_ms),
            age_ms=now_ms - (self.started_ms or now_ms) if is_open else None,
            client_id=self.client_id,
            client_host=self.client_host,
        )


class TransactionStates:
    """The transactional ids of captures."""

    def __init__(self) -> None:
        self._states: dict[str, TransactionState] = {}

    def __iter__(self) -> Iterator[TransactionState]:
        return iter(sorted(self._states.values(), key=_name_of))

    def __len__(self) -> int:
        return len(self._states)

    def find(self, name: str) -> TransactionState | None:
        """Return a transactional id; None if no request names it."""
        return self._states.get(name)

    def add(self, seen: Observation, names: Mapping[bytes, str]) -> None:
        """Add a request with its answer; one without an answer changes nothing."""
        handle = self._HANDLERS.get(seen.api_key)
        if handle is not None and seen.request is not None and seen.response is not None:
            handle(self, seen, names)

    def _state(self, name: str | None) -> TransactionState | None:
        if not name:
            return None
        found = self._states.get(name)
        if found is None and len(self._states) < MAX_IDS:
            found = self._states[name] = TransactionState(name)
        return found

    def _initialized(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        request, response = seen.request, seen.response
        state = self._state(request.transactional_id)
        if state is None:
            return
        if response.error_code:
            _note_refusal(state, seen, {response.error_code})
            return
        client, at_ms = seen.event.client, milliseconds(time_of(seen))
        state.producer_id, state.producer_epoch = response.producer_id, response.producer_epoch
        state.timeout_ms = request.transaction_timeout_ms
        state.client_id, state.client_host = client.id or None, f"/{client.host}"
        state.partitions.clear()
        state.note(at_ms, _EMPTY)
        state.note_entry(
            at_ms,
            _INITIALIZED,
            f"producer {response.producer_id} begins epoch {response.producer_epoch} of "
            f"transactional id {state.name}, for {client}",
            {"producer_id": response.producer_id, "producer_epoch": response.producer_epoch},
        )

    def _added(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        request, response = seen.request, seen.response
        if request.v3_and_below_transactional_id:
            name = request.v3_and_below_transactional_id
            self._begin(seen, name, _rows_of(response.results_by_topic_v3_and_below))
            return
        for each in response.results_by_transaction or ():
            self._begin(seen, each.transactional_id, _rows_of(each.topic_results))

    def _begin(self, seen: Observation, name: str, rows: Sequence[tuple[str, int, int]]) -> None:
        """Note partitions that were added to a transaction: topic, partition and error of each."""
        state = self._state(name)
        if state is None:
            return
        accepted = {(topic, number) for topic, number, code in rows if not code}
        if accepted:
            state.partitions |= accepted
            state.note(milliseconds(time_of(seen)), _ONGOING)
        _note_refusal(state, seen, {code for _, _, code in rows if code})

    def _produced(self, seen: Observation, names: Mapping[bytes, str]) -> None:
        name = seen.request.transactional_id
        if not name:
            return
        rows = [
            (_topic_name(topic, names), row.index, row.error_code)
            for topic in seen.response.responses
            for row in topic.partition_responses
        ]
        self._begin(seen, name, rows)

    def _added_offsets(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        state, code = self._state(seen.request.transactional_id), seen.response.error_code
        if state is None:
            return
        if code:
            _note_refusal(state, seen, {code})
        else:
            state.note(milliseconds(time_of(seen)), _ONGOING)

    def _committed_offsets(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        state = self._state(seen.request.transactional_id)
        if state is None:
            return
        codes = {row.error_code for topic in seen.response.topics for row in topic.partitions}
        if not all(codes):
            state.note(milliseconds(time_of(seen)), _ONGOING)
        _note_refusal(state, seen, {each for each in codes if each})

    def _ended(self, seen: Observation, _: Mapping[bytes, str]) -> None:
        request, response = seen.request, seen.response
        state = self._state(request.transactional_id)
        if state is None:
            return
        if response.error_code:
            _note_refusal(state, seen, {response.error_code})
            return
        if getattr(response, "producer_id", -1) >= 0:
            state.producer_id, state.producer_epoch = response.producer_id, response.producer_epoch
        state.partitions.clear()
        state.note(milliseconds(time_of(seen)), _ENDED[bool(request.committed)])

    _HANDLERS: ClassVar[
        Mapping[int, Callable[[TransactionStates, Observation, Mapping[bytes, str]], None]]
    ] = {
        int(ApiKey.INIT_PRODUCER_ID): _initialized,
        int(ApiKey.ADD_PARTITIONS_TO_TXN): _added,
        int(ApiKey.PRODUCE): _produced,
        int(ApiKey.ADD_OFFSETS_TO_TXN): _added_offsets,
        int(ApiKey.TXN_OFFSET_COMMIT): _committed_offsets,
        int(ApiKey.END_TXN): _ended,
    }


def _note_refusal(state: TransactionState, seen: Observation, codes: set[int]) -> None:
    for code in sorted(codes):
        name, request = error_name(code), seen.request
        epoch = getattr(request, "producer_epoch", -1)
        at_epoch = f" at epoch {epoch}" if epoch >= 0 else ""
        api = codec.api_name(seen.api_key)
        text = f"{api} of {seen.event.client}{at_epoch} refused: {name}"
        facts = {"error": name, "producer_epoch": epoch}
        state.note_entry(milliseconds(time_of(seen)), kind_of_error(code), text, facts)


def _rows_of(topics: Any) -> list[tuple[str, int, int]]:  # noqa: ANN401 - rows of two structs
    return [
        (topic.name, row.partition_index, row.partition_error_code)
        for topic in topics or ()
        for row in topic.results_by_partition
    ]


def _topic_name(row: Any, names: Mapping[bytes, str]) -> str:  # noqa: ANN401 - of any version
    topic = topic_of(row)
    return names.get(topic) or uuid_to_text(topic) if isinstance(topic, bytes) else topic


def _name_of(state: TransactionState) -> str:
    return state.name
