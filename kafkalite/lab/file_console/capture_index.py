"""CaptureIndex: where the exchanges of captures are, and what each of them names.

Captures are read once. The frames of the exchanges are copied to a temporary file, because those of
a connection can be anywhere in captures, and compressed. The memory has about 70 bytes of each
exchange; exchanges that name the same entities and have the same errors share one entry.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kafkalite.capture.model import Exchange
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.messages import request_header, response_start
from kafkalite.capture.reading.summary import named_topics
from kafkalite.lab.checker.captured_history import observation
from kafkalite.lab.file_console.group_states import CapturedGroup, is_about_group
from kafkalite.lab.file_console.transaction_states import TransactionStates
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.catalogue import ROWS, entities_in_request, error_codes
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.model import Connection
    from kafkalite.control.request_filter import RequestFilter
    from kafkalite.lab.checker.collecting import Observation

MAX_GROUPS: Final = 100_000
"""The maximum number of groups whose states are known."""
MAX_NAMES: Final = 200_000
"""The maximum number of different sets of names and errors; others are decoded for each filter."""
MAX_TOPIC_IDS: Final = 100_000

_UNKNOWN: Final = 0
"""The number of the names of exchanges that are not in the index."""
_BUFFER_BYTES: Final = 1 << 20
_NO_NUMBER: Final = -1
_MAX_NS: Final = 2**63 - 1
"""The largest time that the index has; a pcapng file can have any."""


class Names(NamedTuple):
    """What an exchange names, and the errors in its answer."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()


class CaptureIndex:
    """The exchanges of captures, numbered from 1 in the order in which they were answered.

    It may be read while another thread adds exchanges.
    """

    def __init__(self, directory: str | None = None) -> None:
        """Create a temporary file, in the system's directory for them; raises OSError."""
        # The file has no name, so it ends with the process.
        self._spool = tempfile.TemporaryFile(dir=directory, buffering=_BUFFER_BYTES)  # noqa: SIM115
        self._end = 0
        self._sent_ns = array("q")
        self._answered_ns = array("q")
        self._positions = array("Q")
        self._request_bytes = array("I")
        self._response_bytes = array("i")
        self._api_keys = array("h")
        self._clients = array("I")
        self._connections = array("I")
        self._connection_positions = array("I")
        self._files = array("I")
        self._offsets = array("q")
        self._names = array("I")
        self._all_names: dict[Names, int] = {Names(errors=(-1,)): _UNKNOWN}
        self._names_by_number: list[Names] = [*self._all_names]
        self._client_numbers: dict[str | None, int] = {}
        self._file_numbers: dict[str, int] = {}
        self._connection_numbers: dict[int, int] = {}
        self.connections: list[Connection] = []
        self.topic_names: dict[bytes, str] = {}
        self.groups: dict[str, CapturedGroup] = {}
        self.transactions = TransactionStates()
        self.api_counts: dict[int, int] = {}
        self.error_counts: dict[int, int] = {}
        self.first_ns = self.last_ns = 0

    def __len__(self) -> int:
        return len(self._names)

    @property
    def files(self) -> Sequence[str]:
        """The files with exchanges."""
        return [*self._file_numbers]

    @property
    def size_bytes(self) -> int:
        """The size of the temporary file."""
        return self._end

    def close(self) -> None:
        """Delete the temporary file."""
        self._spool.close()

    # -- adding ----------------------------------------------------------------------------

    def add(self, exchange: Exchange) -> None:
        """Add an exchange; raises OSError if the temporary file cannot grow."""
        exchange = _with_limited_times(exchange)
        seen = observation(exchange)
        if seen.response is not None and len(self.topic_names) < MAX_TOPIC_IDS:
            self.topic_names.update(named_topics(seen.response))
        names = self._names_of(seen)
        self._store(exchange)
        self._names.append(self._number_of(names))
        self._count(exchange, names)
        if is_about_group(seen):
            self._add_to_group(seen, len(self))
        self.transactions.add(seen, self.topic_names)

    def _store(self, exchange: Exchange) -> None:
        response = exchange.response
        self._spool.write(exchange.request)
        if response is not None:
            self._spool.write(response)
        request_bytes = len(exchange.request)
        self._positions.append(self._end)
        self._request_bytes.append(request_bytes)
        self._response_bytes.append(_NO_NUMBER if response is None else len(response))
        self._end += request_bytes + (0 if response is None else len(response))
        self._sent_ns.append(exchange.sent_ns)
        answered_ns = exchange.answered_ns
        self._answered_ns.append(_NO_NUMBER if answered_ns is None else answered_ns)
        self._api_keys.append(exchange.api_key)
        self._clients.append(_numbered(self._client_numbers, exchange.client_id))
        self._connections.append(self._connection(exchange.connection))
        self._connection_positions.append(exchange.position)
        self._files.append(_numbered(self._file_numbers, exchange.file))
        self._offsets.append(exchange.offset)

    def _connection(self, connection: Connection) -> int:
        number = self._connection_numbers.get(connection.number)
        if number is None:
            number = self._connection_numbers[connection.number] = len(self.connections)
            self.connections.append(connection)
        return number

    def _number_of(self, names: Names) -> int:
        number = self._all_names.get(names)
        if number is None:
            if len(self._names_by_number) >= MAX_NAMES:
                return _UNKNOWN
            number = self._all_names[names] = len(self._names_by_number)
            self._names_by_number.append(names)
        return number

    def _count(self, exchange: Exchange, names: Names) -> None:
        self.api_counts[exchange.api_key] = self.api_counts.get(exchange.api_key, 0) + 1
        for code in names.errors:
            self.error_counts[code] = self.error_counts.get(code, 0) + 1
        self.first_ns = min(self.first_ns or exchange.sent_ns, exchange.sent_ns)
        self.last_ns = max(self.last_ns, exchange.answered_ns or exchange.sent_ns)

    def _add_to_group(self, seen: Observation, number: int) -> None:
        name = seen.request.group_id
        group = self.groups.get(name)
        if group is None:
            if len(self.groups) >= MAX_GROUPS:
                return
            group = self.groups[name] = CapturedGroup(name)
        group.add(seen, self.topic_names, number)

    def _names_of(self, seen: Observation) -> Names:
        return names_in(seen, self.topic_names)

    # -- reading ---------------------------------------------------------------------------

    def end(self) -> None:
        """Write what is buffered; raises OSError."""
        self._spool.flush()

    def exchange(self, number: int) -> Exchange:
        """Return an exchange; raises LookupError for a number that none has."""
        if not 0 < number <= len(self):
            raise LookupError(number)
        index = number - 1
        request_bytes = self._request_bytes[index]
        response_bytes = self._response_bytes[index]
        data = os.pread(
            self._spool.fileno(), request_bytes + max(0, response_bytes), self._positions[index]
        )
        request = data[:request_bytes]
        response = None if response_bytes < 0 else data[request_bytes:]
        header = request_header(request)
        answered_ns = self._answered_ns[index]
        return Exchange(
            connection=self.connections[self._connections[index]],
            position=self._connection_positions[index],
            api_key=header.api_key,
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            sent_ns=self._sent_ns[index],
            answered_ns=None if answered_ns == _NO_NUMBER else answered_ns,
            request=request,
            request_start=header.start,
            response=response,
            response_start=_start_of(response, header.api_key, header.api_version),
            file=self.files[self._files[index]],
            offset=self._offsets[index],
        )

    def observation(self, number: int) -> Observation:
        """Return an exchange with its messages."""
        return observation(self.exchange(number))

    def names(self, number: int) -> Names:
        """Return what an exchange names."""
        found = self._names[number - 1]
        return self._decoded_names(number) if found == _UNKNOWN else self._names_by_number[found]

    def _decoded_names(self, number: int) -> Names:
        return self._names_of(self.observation(number))

    def matching(self, selected: RequestFilter) -> Callable[[int], bool]:
        """Return a function that returns whether a filter selects the exchange with a number."""
        names = {each for each in range(1, len(self._names_by_number)) if self._has(selected, each)}
        api, client_id, node = selected.api, selected.client_id, selected.node
        client = None if client_id is None else self._client_numbers.get(client_id, _NO_NUMBER)
        nodes = {place for place, each in enumerate(self.connections) if each.node_id == node}
        api_keys, clients, connections = self._api_keys, self._clients, self._connections
        all_names = self._names

        def is_selected(number: int) -> bool:
            index = number - 1
            if api is not None and api_keys[index] != api:
                return False
            if client is not None and clients[index] != client:
                return False
            if node is not None and connections[index] not in nodes:
                return False
            found = all_names[index]
            if found == _UNKNOWN:
                return _matches(selected, self._decoded_names(number))
            return found in names

        return is_selected

    def _has(self, selected: RequestFilter, place: int) -> bool:
        return _matches(selected, self._names_by_number[place])

    def was_sent_before(self, number: int, at_ns: int) -> bool:
        """Return whether a request was sent before a time."""
        return self._sent_ns[number - 1] < at_ns

    def was_served_at(self, number: int, from_ns: int, until_ns: int) -> bool:
        """Return whether a request was sent and not answered in a part of an interval."""
        index = number - 1
        answered_ns = self._answered_ns[index]
        is_sent = self._sent_ns[index] <= until_ns
        return is_sent and (answered_ns == _NO_NUMBER or from_ns <= answered_ns)


def read_index(
    paths: Iterable[str],
    problems: Reporter,
    *,
    ports: Iterable[int] = (),
    progress: Callable[[int, str, int], None] = lambda _count, _file, _offset: None,
) -> CaptureIndex:
    """Return the index of captures; raises OSError if the temporary file cannot be written.

    `ports` are those of brokers, as for `show`. `progress` is called after every PROGRESS_STEP
    exchanges with their number, and the file and the offset that were reached.
    """
    index = CaptureIndex()
    try:
        for exchange in exchanges(read(paths, problems, ports=ports), problems):
            index.add(exchange)
            if len(index) % PROGRESS_STEP == 0:
                progress(len(index), exchange.file, exchange.offset)
        index.end()
    except BaseException:
        index.close()
        raise
    return index


PROGRESS_STEP: Final = 100_000


def names_in(seen: Observation, topic_names: Mapping[bytes, str]) -> Names:
    """Return what an exchange names; topics that it names by unknown ids have the ids as text."""
    key, request, response = seen.api_key, seen.request, seen.response
    if key not in ROWS:
        return Names()
    errors: tuple[int, ...] = ()
    if response is not None:
        errors = tuple(sorted({code for code in error_codes(key, response) if code}))
    if request is None:
        return Names(errors=errors)
    groups, topics, ids, transactional_ids = (
        _unique(key, entity, request) if is_named else ()
        for entity, is_named in _named_entities(key)
    )
    if ids:
        names = (topic_names.get(each) or uuid_to_text(each) for each in ids if any(each))
        topics = (*topics, *names)
    return Names(groups, topics, transactional_ids, errors)


_ENTITIES: Final = (Entity.GROUP, Entity.TOPIC, Entity.TOPIC_ID, Entity.TRANSACTIONAL_ID)


@cache
def _named_entities(key: int) -> Sequence[tuple[Entity, bool]]:
    """Return each of _ENTITIES, and whether requests of an API can name it."""
    fields = ROWS[key].request
    return [(each, bool(getattr(fields, each.value))) for each in _ENTITIES]


def _unique(key: int, entity: Entity, request: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any message
    return tuple(dict.fromkeys(each for each in entities_in_request(key, entity, request) if each))


def _with_limited_times(exchange: Exchange) -> Exchange:
    """Return an exchange whose times fit into 64 bits."""
    times = exchange.sent_ns, exchange.answered_ns or 0
    if all(-_MAX_NS <= each <= _MAX_NS for each in times):
        return exchange
    sent_ns, answered_ns = (max(-_MAX_NS, min(each, _MAX_NS)) for each in times)
    is_answered = exchange.answered_ns is not None
    return replace(exchange, sent_ns=sent_ns, answered_ns=answered_ns if is_answered else None)


def _numbered(numbers: dict[Any, int], value: object) -> int:
    return numbers.setdefault(value, len(numbers))


def _start_of(response: bytes | None, api_key: int, api_version: int) -> int:
    if response is None:
        return 0
    try:
        return response_start(response, api_key, api_version)
    except ProtocolViolation:
        return len(response)


def _matches(selected: RequestFilter, names: Names) -> bool:
    return (
        (selected.group is None or selected.group in names.groups)
        and (selected.topic is None or selected.topic in names.topics)
        and (
            selected.transactional_id is None
            or selected.transactional_id in names.transactional_ids
        )
        and (selected.error is None or selected.error in names.errors)
    )
