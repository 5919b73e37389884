"""Results of the scalar and the columnar reader for the same capture, in a common format."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.capture.model import Frame
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.model import Problem


class Contents(NamedTuple):
    """Frames and exchanges, with their number of occurrences."""

    frames: Counter[tuple[Any, ...]]
    exchanges: Counter[tuple[Any, ...]]


def scalar(data: bytes, path: Path) -> Contents:
    """Return the result of the scalar reader."""
    path.write_bytes(data)
    problems: list[Problem] = []
    events = list(read([path], problems.append))
    frames = Counter(
        (
            str(each.connection.client), str(each.connection.broker), each.direction, each.body,
            each.offset, each.at_ns // 1000,
        )
        for each in events
        if isinstance(each, Frame)
    )  # fmt: skip
    found = Counter(
        (
            str(each.connection.client), str(each.connection.broker), each.api_key,
            each.api_version, each.correlation_id, each.client_id, each.sent_ns // 1000,
            each.answered_ns and each.answered_ns // 1000, each.request, each.request_start,
            each.response, None if each.response is None else each.response_start,
        )
        for each in exchanges(events)
    )  # fmt: skip
    return Contents(frames, found)


_FRAME = ("client", "broker", "direction", "payload", "offset", "ts")
_PAIR = (
    "client", "broker", "api_key", "api_version", "correlation_id", "client_id", "ts",
    "response_ts", "request", "request_start", "response", "response_start",
)  # fmt: skip
_OPEN = (
    "client", "broker", "api_key", "api_version", "correlation_id", "client_id", "ts", "payload",
    "start",
)  # fmt: skip


def columnar(data: bytes, name: str, chunk_bytes: int = 8 << 20) -> Contents:
    """Return the result of the columnar reader; open requests count as exchanges."""
    contents = Contents(Counter(), Counter())
    options = Options(tables=frozenset(Table), chunk_bytes=chunk_bytes)
    for table, batch in read_file(data, name, options):
        columns = {
            each: batch.column(each).cast("int64") if each in {"ts", "response_ts"} else batch[each]
            for each in batch.schema.names
        }
        lists = {each: column.to_pylist() for each, column in columns.items()}
        if table is Table.FRAMES:
            contents.frames.update(zip(*(lists[each] for each in _FRAME), strict=True))
        elif table is Table.PAIRS:
            contents.exchanges.update(zip(*(lists[each] for each in _PAIR), strict=True))
        elif table is Table.UNPAIRED:
            rows = zip(lists["direction"], *(lists[each] for each in _OPEN), strict=True)
            contents.exchanges.update(
                (*row[1:8], None, *row[8:10], None, None) for row in rows if row[0] == 0
            )
    return contents
