"""A kafkalite broker in virtual time, its clients, and a list of all exchanges.

Responses come from the broker's own state machines, so audits can be compared with these. Where a
scenario needs something that our broker never does, such as a stale or lost response, the response
is changed on its way and the expected result is stored.
"""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalite.capture.model import Direction, Endpoint
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.decoding.decode import decode_table
from kafkalite.protocol import codec
from tests.perf.socketless_broker import SocketlessBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol.message import Message

BROKER = Endpoint("10.0.0.9", 9092)
_LENGTH = 4
_PAUSE_US = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request with its response, if any."""

    line: Line
    api_key: int
    api_version: int
    correlation_id: int
    position: int
    start_us: int
    end_us: int | None
    request: bytes
    """The frame without its length."""
    request_start: int
    response: bytes | None
    response_start: int


@dataclass(eq=False, slots=True)
class Waiting:
    """A request whose response depends on other requests."""

    stage: Stage
    line: Line
    request: Message
    version: int
    framed: bytes
    """Including its length."""
    request_start: int
    start_us: int
    position: int
    poll: Callable[[], bytes | None]

    def answer(self) -> Any:  # noqa: ANN401 - any response class
        """Return the response, sent now; None if there is none yet."""
        data = self.poll()
        if data is None:
            return None
        stage, asked = self.stage, type(self.request)
        key: int = asked.API_KEY  # type: ignore[attr-defined]  # every request class has one
        self.stage.exchanges.append(
            Exchange(
                line=self.line,
                api_key=key,
                api_version=self.version,
                correlation_id=self.line.correlation_id,
                position=self.position,
                start_us=self.start_us,
                end_us=stage.now_us,
                request=self.framed[_LENGTH:],
                request_start=self.request_start,
                response=data[_LENGTH:],
                response_start=_LENGTH + codec.is_flexible(key, self.version),
            )
        )
        stage.now_us += _PAUSE_US
        return stage.broker.parse(asked, self.version, data)


@dataclass(eq=False, slots=True)
class Line:
    """One connection of a client."""

    stage: Stage
    number: int
    client: Endpoint
    client_id: str | None
    correlation_id: int = 0

    def ask(
        self,
        request: Message,
        version: int,
        *,
        is_lost: bool = False,
        takes_us: int | None = None,
        is_waited_for: bool = True,
        rewrite: Callable[[Any], None] | None = None,
    ) -> Any:  # noqa: ANN401 - any response class
        """Send a request and return its response, which `rewrite` may change on its way.

        With `is_lost` the capture lacks the response. Without `is_waited_for` the virtual time does
        not advance to the response, so that other requests can overlap.
        """
        self.correlation_id += 1
        return self.stage.carry(
            self,
            request,
            version,
            is_lost=is_lost,
            takes_us=takes_us,
            is_waited_for=is_waited_for,
            rewrite=rewrite,
        )

    def send(self, request: Message, version: int) -> Waiting:
        """Send a request whose response depends on other requests."""
        self.correlation_id += 1
        return self.stage.hold(self, request, version)


@dataclass
class Stage:
    """The broker, its clients, and all exchanges."""

    directory: Path
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)
    lines: int = 0
    """Number of connections of earlier simulations in the same capture."""
    exchanges: list[Exchange] = field(default_factory=list)
    held: int = 0
    """Number of requests sent by `hold`."""

    def __post_init__(self) -> None:
        """Start the broker."""
        self.broker = SocketlessBroker(str(self.directory), self.settings)
        self.dice = random.Random(self.seed)  # noqa: S311 - seeded on purpose
        self.now_us = self.broker.clock.now_ms() * 1000

    def line(self, client_id: str | None, host: int = 1) -> Line:
        """Open a connection."""
        self.lines += 1
        return Line(self, self.lines, Endpoint(f"10.0.1.{host}", 30_000 + self.lines), client_id)

    def wait(self, ms: int) -> None:
        """Advance the virtual time."""
        self.now_us += ms * 1000
        self._catch_up()

    @property
    def groups(self) -> GroupShard:
        """The state machine of all groups; there is one partition of them."""
        return self.broker.group_shard().machine

    def carry(
        self,
        line: Line,
        request: Message,
        version: int,
        *,
        is_lost: bool,
        takes_us: int | None,
        is_waited_for: bool,
        rewrite: Callable[[Any], None] | None,
    ) -> Any:  # noqa: ANN401 - any response class
        """Pass a request to the broker, return its response, and record both."""
        self._catch_up()
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        framed, start = _frame(request, version, line)
        data = self.broker.serve(framed)
        answer_start = _LENGTH + codec.is_flexible(key, version)
        answer = self.broker.parse(type(request), version, data) if data else None
        if rewrite is not None and answer is not None:
            rewrite(answer)
            data = _answer(data[: _LENGTH + answer_start], answer, key, version)
        begun_us = self.now_us
        took_us = takes_us or self.dice.randrange(200, 3000)
        self.exchanges.append(
            Exchange(
                line=line,
                api_key=key,
                api_version=version,
                correlation_id=line.correlation_id,
                position=len(self.exchanges) * 100,
                start_us=begun_us,
                end_us=None if is_lost or not data else begun_us + took_us,
                request=framed[_LENGTH:],
                request_start=start,
                response=None if is_lost or not data else data[_LENGTH:],
                response_start=answer_start,
            )
        )
        self.now_us += (took_us if is_waited_for else 0) + _PAUSE_US
        return None if is_lost else answer

    def hold(self, line: Line, request: Message, version: int) -> Waiting:
        """Pass a request to the broker."""
        self._catch_up()
        framed, start = _frame(request, version, line)
        poll = self.broker.send(framed)
        begun_us = self.now_us
        self.now_us += _PAUSE_US
        self.held += 1
        position = len(self.exchanges) * 100 + self.held % 100
        return Waiting(self, line, request, version, framed, start, begun_us, position, poll)

    def _catch_up(self) -> None:
        behind_ms = self.now_us // 1000 - self.broker.clock.now_ms()
        if behind_ms > 0:
            self.broker.clock.advance(behind_ms)

    def close(self) -> None:
        """Stop the broker."""
        self.broker.close()


def typed_tables(exchanges: Iterable[Exchange]) -> dict[str, pa.Table]:
    """Return exchanges as typed requests, one table per API."""
    by_key: dict[int, list[Exchange]] = defaultdict(list)
    for exchange in exchanges:
        by_key[exchange.api_key].append(exchange)
    return {codec.api_name(key): decode_typed(key, rows) for key, rows in by_key.items()}


def decode_typed(api_key: int, rows: list[Exchange]) -> pa.Table:
    """Return requests of one API with the columns of `tables.requests`."""
    envelope = [
        {
            "ts": row.start_us,
            "response_ts": row.end_us,
            "latency_us": None if row.end_us is None else row.end_us - row.start_us,
            "connection": row.line.number,
            "client": str(row.line.client),
            "broker": str(BROKER),
            "node_id": 0,
            "api_key": row.api_key,
            "api_version": row.api_version,
            "correlation_id": row.correlation_id,
            "client_id": row.line.client_id,
            "request_bytes": len(row.request),
            "response_bytes": None if row.response is None else len(row.response),
            "file": "capture-1.pcapng",
            "offset": row.position,
        }
        for row in rows
    ]
    versions = pa.array([row.api_version for row in rows], pa.int16())
    sides = {
        Direction.REQUEST: ([row.request for row in rows], [row.request_start for row in rows]),
        Direction.RESPONSE: ([row.response for row in rows], [row.response_start for row in rows]),
    }
    columns = pa.Table.from_pylist(envelope, tables.ENVELOPE)
    for direction, (payloads, starts) in sides.items():
        decoded = decode_table(
            api_key, direction, versions, pa.array(payloads, pa.binary()), pa.array(starts)
        )
        assert not decoded.errors, decoded.errors
        columns = columns.append_column(direction.name.lower(), decoded.values)
    return columns.cast(tables.requests(api_key))


def _frame(request: Message, version: int, line: Line) -> tuple[bytes, int]:
    """Return a request's frame including its length, and the position of its body without it."""
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    name = None if line.client_id is None else line.client_id.encode()
    head = struct.pack(
        ">hhih", key, version, line.correlation_id, -1 if name is None else len(name)
    )
    head += (name or b"") + (b"\0" if codec.is_flexible(key, version) else b"")
    body = b"".join(out)
    return struct.pack(">i", len(head) + len(body)) + head + body, len(head)


def _answer(head: bytes, answer: Message, key: int, version: int) -> bytes:
    out: list[bytes | memoryview] = []
    codec.response_builder(key, version)(answer, out)
    body = b"".join(out)
    return struct.pack(">i", len(head) - _LENGTH + len(body)) + head[_LENGTH:] + body
