"""Routing: to which nodes of the target a request goes, and one answer of what those answer.

On a target of one node that is where all go. Of several, each leads and coordinates what it will,
not what the recorded cluster's did: a request goes to whoever answers for what it is about, in
parts where these are several, and else to the node that its connection went to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.capture.messages import parse_request, parse_response, response_start
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.mapping import Kind, Scope
from kafkalite.replay.places import Places
from kafkalite.replay.refusals import AGAIN, OF_SESSIONS, Retry
from kafkalite.replay.rewriting import frame_of
from kafkalite.replay.routes import Routes
from kafkalite.replay.sessions import FetchSessions, ShareSessions, without_session
from kafkalite.replay.subjects import DIVISIBLE, FETCH, IN_SESSIONS, SHARE_FETCH, SPREAD, Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.model import Connection, Exchange
    from kafkalite.replay.mapping import Mapping
    from kafkalite.replay.sessions import Session
    from kafkalite.replay.subjects import Spread
    from kafkalite.replay.target import Target

ANY_NODE = -1
"""Where the target was found: whoever is there."""
_UNKNOWN_EPOCH = -1


class Part(NamedTuple):
    """What goes to one node."""

    node: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Sending:
    """A request as it goes to the target."""

    parts: tuple[Part, ...]
    subjects: tuple[Subject, ...] = ()
    is_apart: bool = False
    """Whether it goes out otherwise than as one request to one node."""
    session: Session | None = None
    """Of a Fetch, what it has come to, where that is kept."""


@dataclass(frozen=True, slots=True)
class Again:
    """What of a part goes out once more."""

    parts: tuple[Part, ...]
    kept: bytes | None = None
    """Its answer, without what was refused; None where all was."""


class Routing:
    """Finds the nodes of one target for the requests of one replay."""

    def __init__(self, target: Target, meaning: Mapping) -> None:
        self._target = target
        self._meaning = meaning
        self._routes = Routes(target.nodes, meaning)
        self._places = Places(target)
        self._fetches = FetchSessions()
        self._shares = ShareSessions()

    def look_at(self, exchange: Exchange) -> None:
        """Take what a recorded answer tells of the recorded nodes."""
        self._routes.look_at(exchange)

    def home(self, connection: Connection) -> int:
        """Return the node that stands for the one that a connection went to."""
        node = self._routes.node(connection) if self._target.is_of_several else None
        return ANY_NODE if node is None else node

    async def sending(self, exchange: Exchange, frame: bytes) -> Sending:
        """Return how a request goes out; UnreachableError where the target cannot be asked."""
        home = self.home(exchange.connection)
        spread = SPREAD.get(exchange.api_key) if self._target.is_of_several else None
        if spread is None:
            return Sending((Part(home, frame),))
        try:
            request = _asked(exchange, frame)
            if exchange.api_key == FETCH:
                return await self._fetch(exchange, frame, request, home)
            if exchange.api_key in IN_SESSIONS:
                return await self._share(exchange, request, home)
        except (KeyError, *codec.PARSE_ERRORS):
            return Sending((Part(home, frame),))
        subjects = tuple(spread.subjects(request))
        split = await self._split(spread, request, subjects, home)
        if len(split) > 1:
            return _apart(exchange, split, subjects)
        return Sending((Part(next(iter(split), home), frame),), subjects)

    async def _split(
        self,
        spread: Spread,
        request: Any,  # noqa: ANN401 - of the API that is spread
        subjects: Sequence[Subject],
        home: int,
    ) -> dict[int, Any]:
        known = await self._places.of(subjects)
        if len({known.get(each, home) for each in subjects}) > 1 and not spread.within:
            return spread.split(request, lambda subject: known.get(subject, home))
        return {known.get(each, home): request for each in subjects[:1]}

    async def _fetch(self, exchange: Exchange, frame: bytes, request: Any, home: int) -> Sending:  # noqa: ANN401
        session = self._fetches.take(exchange, parse_request(exchange), request)
        whole = without_session(request, session)
        subjects = tuple(session.rows)
        split = await self._split(SPREAD[FETCH], whole, subjects, home)
        if session.node is None and len(split) <= 1:
            session.node = next(iter(split), home)
        if session.node is not None and not session.is_apart and split.keys() <= {session.node}:
            return Sending((Part(session.node, frame),), subjects, session=session)
        session.is_apart = True
        for each in split.values():
            if len(split) > 1:
                each.max_wait_ms = 0  # or those without news would hold up those with some
        return _apart(exchange, split or {home: whole}, subjects, session)

    async def _share(self, exchange: Exchange, request: Any, home: int) -> Sending:  # noqa: ANN401
        spread = SPREAD[exchange.api_key]
        subjects = tuple(spread.subjects(request))
        known = await self._places.of(subjects)
        split = spread.split(request, lambda subject: known.get(subject, home))
        nodes = self._shares.nodes(exchange, request)
        for node in nodes or [home]:
            if node not in split and (exchange.api_key == SHARE_FETCH or not split):
                split[node] = spread.without_rows(request)
        for node, each in split.items():
            if len(split) > 1 and exchange.api_key == SHARE_FETCH:
                each.max_wait_ms = 0
            self._shares.number(exchange, each, node)
        return _apart(exchange, split, subjects)

    def retry(self, exchange: Exchange, sending: Sending) -> Retry:
        """Return what of a request that the target refuses can go out once more."""
        if sending.session is not None:
            return OF_SESSIONS
        return Retry(is_divisible=exchange.api_key in DIVISIBLE)

    async def again(self, exchange: Exchange, sending: Sending, part: Part, answer: bytes) -> Again:
        """Return how what was refused for a moment goes out once more.

        What belongs to a session whose partitions are not known goes where it went.
        """
        if sending.session is not None:
            return await self._fetch_again(exchange, sending.session, part, answer)
        if exchange.api_key in IN_SESSIONS:
            return Again((part,))
        frame, kept = part.frame, None
        if exchange.api_key in DIVISIBLE:
            spread = SPREAD[exchange.api_key]
            request = _asked(exchange, frame)
            told = _parsed(exchange, answer)
            refused = spread.refused(told, AGAIN)
            split = spread.split(request, lambda subject: int(subject in refused))
            if len(split) > 1:
                kept = _rebuilt(exchange, answer, spread.without(told, refused))
            if 1 in split:
                await self._renew(spread, split[1])
                frame = _framed(exchange, split[1])
        return Again((await self.sending(exchange, frame)).parts, kept)

    async def _fetch_again(
        self, exchange: Exchange, session: Session, part: Part, answer: bytes
    ) -> Again:
        """Ask for what was refused as a client does that has heard of an election.

        From then on its session is none: its node does not lead all of it, or has forgotten it.
        """
        spread = SPREAD[FETCH]
        request = _asked(exchange, part.frame)
        told = _parsed(exchange, answer)
        kept = None
        if request.session_epoch >= 0:
            request = without_session(request, session)
        if not told.error_code:
            refused = spread.refused(told, AGAIN)
            kept = _rebuilt(exchange, answer, spread.without(told, refused))
            split = spread.split(request, lambda subject: int(subject in refused))
            request = split.get(1, request)
        session.is_apart = True
        await self._renew(spread, request)
        request.max_wait_ms = 0  # or those without news would hold up those with some
        split = await self._split(spread, request, spread.subjects(request), part.node)
        return Again(_apart(exchange, split or {part.node: request}, ()).parts, kept)

    async def _renew(self, spread: Spread, request: Any) -> None:  # noqa: ANN401 - of the API that is spread
        """Give a request the epochs of the leaders that there are now, where it has any."""
        rows = [(subject, part) for subject, _, part in spread.each(request) if _has_epoch(part)]
        await self._places.of(subject for subject, _ in rows)
        for subject, part in rows:
            part.current_leader_epoch = self._places.epochs.get(subject, _UNKNOWN_EPOCH)

    def forget(self, sending: Sending) -> None:
        """Ask the target anew for what a request is about: it is not where it was."""
        self._places.forget(sending.subjects)

    def answer(self, exchange: Exchange, sending: Sending, answers: Sequence[bytes]) -> bytes:
        """Return what the target answered, as if one node had."""
        is_apart = sending.is_apart or (sending.session is not None and sending.session.is_apart)
        if not is_apart and len(answers) == 1:
            return answers[0]
        try:
            told = [_parsed(exchange, each) for each in answers]
            whole = SPREAD[exchange.api_key].joined(told)
            if exchange.api_key == FETCH and is_apart:
                # What goes out in parts goes without a session: this one is only in the capture.
                recorded = parse_response(exchange).session_id
                whole.session_id = self._meaning.translate(Kind.SESSION, Scope(), recorded)
        except ProtocolViolation:
            return answers[0]
        return _rebuilt(exchange, answers[0], whole)


def _apart(
    exchange: Exchange,
    split: dict[int, Any],
    subjects: tuple[Subject, ...],
    session: Session | None = None,
) -> Sending:
    parts = tuple(Part(node, _framed(exchange, message)) for node, message in split.items())
    return Sending(parts, subjects, is_apart=True, session=session)


def _has_epoch(part: Any) -> bool:  # noqa: ANN401 - a struct about a partition
    """Whether it says which leader it means."""
    return bool(getattr(part, "current_leader_epoch", _UNKNOWN_EPOCH) != _UNKNOWN_EPOCH)


def _asked(exchange: Exchange, frame: bytes) -> Any:  # noqa: ANN401 - a request of the API
    parse = codec.request_parser(exchange.api_key, exchange.api_version)
    return parse(frame, exchange.request_start, len(frame))[0]


def _framed(exchange: Exchange, message: Any) -> bytes:  # noqa: ANN401 - a request of the API
    return frame_of(
        exchange.request, exchange.request_start, message, exchange.api_key, exchange.api_version
    )


def _rebuilt(exchange: Exchange, answer: bytes, message: Any) -> bytes:  # noqa: ANN401 - its response
    """Return the frame of an answer with another message in it."""
    start = response_start(answer, exchange.api_key, exchange.api_version)
    out: list[bytes | memoryview] = []
    codec.response_builder(exchange.api_key, exchange.api_version)(message, out)
    return b"".join((answer[:start], *out))


def _parsed(exchange: Exchange, answer: bytes) -> Any:  # noqa: ANN401 - any response
    start = response_start(answer, exchange.api_key, exchange.api_version)
    parse = codec.response_parser(exchange.api_key, exchange.api_version)
    try:
        message, _ = parse(answer, start, len(answer))
    except codec.PARSE_ERRORS as error:
        raise ProtocolViolation(str(error)) from error
    return message
