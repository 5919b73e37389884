"""What both sides of a connection said, as frames: who the broker is, and whether it is Kafka.

The side that opened the connection is the client's. Where the capture has not seen it opened, an
end that is known for a broker is one here, too; else the client is the side that sends requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture.framing import MAX_FRAME_BYTES, Framer, Verdict
from kafkalite.capture.model import (
    Closed,
    Connection,
    Direction,
    Frame,
    Gap,
    Opened,
    Problem,
    ProblemKind,
)
from kafkalite.capture.plausible import Requests, Responses, first_request, is_tls
from kafkalite.capture.reassembly import Hole, Piece
from kafkalite.wire.headers import HEADER_BYTES, unpack_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.blocks import Reporter
    from kafkalite.capture.framing import Unfinished, Whole
    from kafkalite.capture.model import Endpoint, Event
    from kafkalite.capture.notes import InterfaceNote
    from kafkalite.capture.reassembly import Run

UNDECIDED_BYTES: Final = 256 * 1024
"""How much of a connection is kept while it is not known who is who."""
MAX_ASKED: Final = 1024
"""How many requests without a response are remembered; those of acks=0 never get one."""

_HEAD_BYTES: Final = 2048
_correlation = Struct(">i").unpack_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What holds for a whole capture."""

    report: Reporter
    ports: frozenset[int] = frozenset()
    """Ports on which brokers listen, as far as the user has said."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    brokers: set[Endpoint] = field(default_factory=set)
    """Ends that turned out to be brokers."""
    numbers: Iterator[int] = field(default_factory=count)


class Rests(NamedTuple):
    """What is left of a dialogue, by side; None where it is not known where frames begin."""

    client_side: int
    sides: tuple[Unfinished | None, Unfinished | None]


class Dialogue:
    """The two directions of one connection; `events` is what they have made known."""

    __slots__ = (
        "_asked",
        "_client",
        "_client_side",
        "_connection",
        "_ends",
        "_first",
        "_framers",
        "_gaps",
        "_heads",
        "_held",
        "_held_bytes",
        "_is_resumed",
        "_note",
        "_opened_ns",
        "_probes",
        "_requests",
        "_setting",
        "_skips",
        "events",
        "is_refused",
    )

    def __init__(
        self, ends: tuple[Endpoint, Endpoint], note: InterfaceNote, setting: Setting
    ) -> None:
        self.events: list[Event] = []
        self._ends = ends
        self._note = note
        self._setting = setting
        self._client_side = self._known_client()
        self._opened_ns: int | None = None
        self._connection: Connection | None = None
        self.is_refused = False
        """Whether it is not Kafka, so that no more of it is of use."""
        self._is_resumed = False
        self._skips = [0, 0]
        self._held: list[tuple[int, Piece | Hole]] | None = []
        self._held_bytes = 0
        self._heads = [b"", b""]
        self._gaps: list[tuple[Direction, int]] = []
        self._asked: dict[int, tuple[int, int]] = {}
        self._client = b""
        self._requests = Requests(setting.max_frame_bytes)
        self._probes: list[Framer] | None = None
        self._framers: list[Framer] = []
        self._first: tuple[str, int] | None = None

    def _known_client(self) -> int | None:
        """Return the side whose peer, and it alone, is known for a broker."""
        setting = self._setting
        known = [end in setting.brokers or end.port in setting.ports for end in self._ends]
        return known.index(False) if known.count(True) == 1 else None

    @property
    def undecided_since_ns(self) -> int | None:
        """Since when something is kept because it is not known who is who."""
        return self._held[0][1].at_ns if self._held else None

    def open(self, client_side: int, at_ns: int) -> None:
        """Note who opened the connection, and that it is seen from its start."""
        if self._opened_ns is None and not self._heads[0] and not self._heads[1]:
            self._client_side = client_side
            self._opened_ns = at_ns

    def resume(self, client_side: int | None, opened_ns: int) -> None:
        """Note that the capture says itself what it goes on with, from one of its files before."""
        if self._held == [] and not any(self._heads):
            self._opened_ns = opened_ns
            self._is_resumed = True
            if client_side is not None:
                self._client_side = client_side

    def skip(self, side: int, size: int) -> None:
        """Note that one side goes on within a frame that began in another file."""
        self._skips[side] = size
        if self._framers:
            self._framers[side != self._client_side].skip(size)

    def run(self, side: int, run: Run) -> None:
        """Take more of what one side said."""
        for item in run:
            if self.is_refused:
                return
            if self._held is not None:
                self._hold(side, item)
            else:
                self._apply(side, item)

    def rests(self) -> Rests | None:
        """Return what either side has left; None where it is not known who is who."""
        if self.is_refused or self._client_side is None or not self._framers:
            return None
        asked, answered = (framer.unfinished for framer in self._framers)
        sides = (asked, answered) if self._client_side == 0 else (answered, asked)
        return Rests(self._client_side, sides)

    def settle(self) -> None:
        """Decide who is who by what little there is."""
        if self._held is None or self.is_refused:
            return
        if self._client_side is None:
            # Servers have the lower ports, those that systems give to clients are high.
            self._client_side = int(self._ends[0].port < self._ends[1].port)
        self._begin()

    def finish(self, at_ns: int, *, is_closed: bool) -> None:
        """Note that nothing more will come."""
        if not self.is_refused and self._connection is None and any(self._heads):
            self._refuse(self._why_unreadable())
        if self._connection is not None and is_closed:
            self.events.append(Closed(at_ns, self._connection))

    # -- who is who ------------------------------------------------------------------------

    def _hold(self, side: int, item: Piece | Hole) -> None:
        assert self._held is not None
        self._held.append((side, item))
        if isinstance(item, Piece):
            self._held_bytes += len(item.data)
            if len(self._heads[side]) < _HEAD_BYTES:
                self._heads[side] += item.data[:_HEAD_BYTES]
            if self._first is None:
                self._first = (item.file, item.offset)
        if self._is_resumed and self._client_side is not None:
            self._begin()
        elif self._opened_ns is not None:
            self._decide_from_start()
        elif self._client_side is not None:
            self._begin()
        else:
            self._probe(side, item)
        if self._held and self._held_bytes > UNDECIDED_BYTES:
            if self._opened_ns is None:
                self.settle()
            else:
                self._refuse("the client says nothing")

    def _decide_from_start(self) -> None:
        """Look at the first request; there is none to look at where it was lost."""
        assert self._held is not None
        head = b""
        for side, item in self._held:
            if side != self._client_side:
                continue
            if isinstance(item, Hole):
                self._begin()
                return
            head += item.data[:_HEAD_BYTES]
        verdict = first_request(head, self._setting.max_frame_bytes)
        if verdict is Verdict.YES:
            self._begin()
        elif verdict is Verdict.NO:
            self._refuse("its first bytes are no request")

    def _probe(self, side: int, item: Piece | Hole) -> None:
        """Look for requests on either side."""
        if self._probes is None:
            self._probes = [self._framer(self._requests, is_in_step=False) for _ in self._ends]
        probe = self._probes[side]
        if isinstance(item, Hole):
            probe.hole(item.size)
            return
        probe.feed(item)
        if probe.is_in_step:
            self._client_side = side
            self._begin()

    def _begin(self) -> None:
        """Go through all that was kept, now that it is known who is who."""
        held, self._held = self._held, None
        self._probes = None
        is_from_start = self._opened_ns is not None
        responses = Responses(self._asked, self._setting.max_frame_bytes)
        assert self._client_side is not None
        self._framers = [
            self._framer(self._requests, is_in_step=is_from_start),
            self._framer(responses, is_in_step=is_from_start),
        ]
        for side, size in enumerate(self._skips):
            self._framers[side != self._client_side].skip(size)
        for side, item in held or ():
            self._apply(side, item)

    def _framer(self, finder: Requests | Responses, *, is_in_step: bool) -> Framer:
        return Framer(
            finder,
            is_in_step=is_in_step,
            maximum=self._setting.max_frame_bytes,
            report=self._tell_malformed,
        )

    def _refuse(self, why: str) -> None:
        self.is_refused = True
        self._held = None
        self._probes = None
        self._framers = []
        if any(is_tls(head) for head in self._heads):
            self._tell(ProblemKind.ENCRYPTED, "TLS")
        else:
            self._tell(ProblemKind.NOT_KAFKA, why)

    def _why_unreadable(self) -> str:
        return "no request in it" if self._opened_ns is None else "its first request is not whole"

    # -- frames ----------------------------------------------------------------------------

    def _apply(self, side: int, item: Piece | Hole) -> None:
        direction = Direction.REQUEST if side == self._client_side else Direction.RESPONSE
        framer = self._framers[direction]
        if isinstance(item, Hole):
            self._gap(direction, item)
            framer.hole(item.size)
            return
        for whole in framer.feed(item):
            self._frame(direction, whole)

    def _frame(self, direction: Direction, whole: Whole) -> None:
        connection = self._connection or self._appear(whole)
        if direction is Direction.REQUEST:
            self._note_request(whole.body)
        else:
            self._note_response(whole.body)
        self.events.append(
            Frame(whole.at_ns, connection, direction, whole.body, whole.file, whole.offset)
        )

    def _appear(self, whole: Whole) -> Connection:
        """Make the connection one of the capture's, now that it has a frame."""
        assert self._client_side is not None
        broker = self._ends[1 - self._client_side]
        self._setting.brokers.add(broker)
        self._connection = connection = Connection(
            number=next(self._setting.numbers),
            client=self._ends[self._client_side],
            broker=broker,
            opened_ns=self._opened_ns,
            node_id=self._note.node,
            listener=self._note.listener,
        )
        self._first = (whole.file, whole.offset)
        if self._opened_ns is None:
            self._tell(ProblemKind.MID_CONNECTION, "its beginning is not in the capture")
        self.events.append(Opened(whole.at_ns, connection))
        self.events += [Gap(whole.at_ns, connection, each, size) for each, size in self._gaps]
        return connection

    def _note_request(self, body: bytes) -> None:
        if len(body) < HEADER_BYTES:
            return
        kind, correlation_id, size = unpack_header(body)
        asked = self._asked
        asked[correlation_id] = (kind >> 16, kind & 0xFFFF)
        if len(asked) > MAX_ASKED:
            del asked[next(iter(asked))]
        client = body[HEADER_BYTES : HEADER_BYTES + size] if size > 0 else b""
        if client != self._client:
            self._client = client
            self._requests.clients = {client}

    def _note_response(self, body: bytes) -> None:
        asked = self._asked
        correlation_id = _correlation(body)[0] if len(body) >= _HEAD_OF_RESPONSE else None
        if correlation_id in asked:
            # Brokers answer in order: what was asked before gets no answer any more.
            while (first := next(iter(asked))) != correlation_id:
                del asked[first]
            del asked[first]

    def _gap(self, direction: Direction, hole: Hole) -> None:
        self._tell(
            ProblemKind.GAP, f"{hole.size} bytes of its {direction.name.lower()}s are missing"
        )
        if self._connection is None:
            self._gaps.append((direction, hole.size))
        else:
            self.events.append(Gap(hole.at_ns, self._connection, direction, hole.size))

    # -- what is wrong ----------------------------------------------------------------------

    def _tell_malformed(self, detail: str) -> None:
        if self._probes is None:
            self._tell(ProblemKind.MALFORMED, detail)

    def _tell(self, kind: ProblemKind, detail: str) -> None:
        client = self._client_side or 0
        file, offset = self._first or ("", None)
        name = f"{self._ends[client]} > {self._ends[1 - client]}"
        self._setting.report(
            Problem(kind=kind, file=file, offset=offset, connection=name, detail=detail)
        )


_HEAD_OF_RESPONSE: Final = 4
