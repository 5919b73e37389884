"""Histories of brokers under test, and where two of them part.

A history is what a broker has stored and shown: its data files, its log of requests, and the
entries of `explain`. Ports are different in each run, so they are left out.
"""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from posixpath import basename
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import to_json
from kafkalite.control.commands.explain import MAX_EXPLAIN_ENTRIES
from kafkalite.control.commands.requests import MAX_LISTED
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.temporary import LOCK_FILE as TEMPORARY_FILE
from kafkalite.storage.batch import CRC_END, HEADER_SIZE, split_batches
from kafkalite.storage.data_directory import BOOT_FILE, LOCK_FILE
from kafkalite.storage.segment import LOG_SUFFIX
from kafkalite.testing.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_OF_PROCESSES: Final = frozenset((LOCK_FILE, BOOT_FILE, TEMPORARY_FILE))
"""Files about the process and the machine."""
_CERTIFICATES: Final = (".pem", ".p12", ".jks")
_CRC_BYTES: Final = 4
_SHOWN_CHARACTERS: Final = 200
_PORT: Final = "PORT"


class History(NamedTuple):
    """What a broker has done."""

    requests: Sequence[Mapping[str, Any]]
    """The logged requests as JSON, in the order in which they ended."""
    entries: Sequence[Mapping[str, Any]]
    """The entries of `explain` as JSON."""
    files: Mapping[str, bytes]
    """The contents of the data files by path."""


class HistoryComparison(NamedTuple):
    """Where two histories part; true if they are equal."""

    differences: tuple[str, ...]
    """The first difference of the requests, of the entries, and of each file, each in a line."""

    def __bool__(self) -> bool:
        return not self.differences

    def __repr__(self) -> str:
        return "\n".join(self.differences) or "the histories are equal"


def history_of(broker: Broker) -> History:
    """Return the history of a broker that is running; raises ValueError for anything else."""
    if not isinstance(broker, Broker):
        raise ValueError(  # noqa: TRY004 - as for other arguments
            f"a history is that of a Broker, or the result of history_of, not {broker!r}"
        )
    ports = _ports(broker.bootstrap_servers)
    requests = [
        _without_ports(to_json(each), ports) for each in broker.requests.list(limit=MAX_LISTED)
    ]
    for each in requests:
        # The address has a port only while the client is connected.
        each["client"] = str(each["client"]).removesuffix(f":{_PORT}")
    entries = [
        _without_ports(each._asdict(), ports) for each in broker.explain(limit=MAX_EXPLAIN_ENTRIES)
    ]
    files = {
        path: _without_endpoints(path, content, ports)
        for path, content in sorted(broker.data_files().items())
        if basename(path) not in _OF_PROCESSES and not path.endswith(_CERTIFICATES)
    }
    return History(requests, entries, files)


def same_history(first: Broker | History, second: Broker | History) -> HistoryComparison:
    """Compare what two brokers have done; the result is true if it is the same.

    Otherwise its text says where the histories part. Requests are compared if both brokers log
    them. A broker must be running; `history_of` returns the history of one that stops before.
    """
    one, two = (each if isinstance(each, History) else history_of(each) for each in (first, second))
    differences = [
        *_first_difference("request", one.requests, two.requests),
        *_first_difference("entry of explain", one.entries, two.entries),
        *_different_files(one.files, two.files),
    ]
    return HistoryComparison(tuple(differences))


def _ports(bootstrap_servers: str) -> frozenset[int]:
    return frozenset(int(each.rpartition(":")[2]) for each in bootstrap_servers.split(","))


def _without_ports(value: Any, ports: frozenset[int]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value whose ports are replaced, those of clients as well."""
    if isinstance(value, dict):
        return {
            key: _PORT if key == "port" and each in ports else _without_ports(each, ports)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_ports(each, ports) for each in value]
    if isinstance(value, str):
        return re.sub(r"(?<=[\w\]]):\d{4,5}\b", f":{_PORT}", value)
    return value


def _without_endpoints(path: str, content: bytes, ports: frozenset[int]) -> bytes:
    """Return the content of a file, without the ports that a log of metadata has, and its CRCs."""
    if not path.endswith(LOG_SUFFIX) or not path.startswith(METADATA_TOPIC):
        return content
    masked = bytearray(content)
    position = 0
    for batch in split_batches(content):
        masked[position + CRC_END - _CRC_BYTES : position + CRC_END] = bytes(_CRC_BYTES)
        position += batch.size
    for port in ports:
        pattern = re.escape(port.to_bytes(2))
        masked = bytearray(
            re.sub(rb"(?<=[0-9a-z])" + pattern, bytes(2), bytes(masked), flags=re.DOTALL)
        )
    return bytes(masked)


def _first_difference(
    what: str, one: Sequence[Mapping[str, Any]], two: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    for number, (first, second) in enumerate(zip_longest(one, two), 1):
        if first == second:
            continue
        if first is None or second is None:
            more = "first" if second is None else "second"
            yield f"{what} {number} is only in the {more} history: {_shown(first or second)}"
        else:
            fields = ", ".join(
                f"{name} {_shown(first.get(name))}, not {_shown(second.get(name))}"
                for name in first
                if first.get(name) != second.get(name)
            )
            yield f"{what} {number} parts: {fields}"
        return


def _different_files(one: Mapping[str, bytes], two: Mapping[str, bytes]) -> Iterator[str]:
    for path in sorted(one.keys() | two.keys()):
        first, second = one.get(path), two.get(path)
        if first is None or second is None:
            yield f"file {path} is only in the {'second' if first is None else 'first'} history"
        elif first != second:
            pairs = enumerate(zip(first, second, strict=False))
            position = next(
                (number for number, (left, right) in pairs if left != right),
                min(len(first), len(second)),
            )
            yield f"file {path} parts at byte {position}{_place(path, first, position)}"


def _place(path: str, content: bytes, position: int) -> str:
    """Return the offset of the batch at a position of a log."""
    if not path.endswith(LOG_SUFFIX):
        return ""
    start = 0
    for batch in split_batches(content):
        if start <= position < start + max(batch.size, HEADER_SIZE):
            return f", in the batch at offset {batch.base_offset}"
        start += batch.size
    return ", at its end"


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
