"""`Routing`: selects the target's nodes for each request, and merges their responses.

If the target has one node, that node gets all requests. On a target of several nodes, leaders and
coordinators differ from those of the recorded cluster. A request is sent to the leader or
coordinator of its subjects (partitions, groups, transactional ids), in parts if these are on
several nodes. Other requests are sent to the node that the recorded connection's node maps to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.traffic.replay.comparison.refusals import (
    FETCH_RETRY_POLICY,
    RETRY_LIMITS,
    RetryPolicy,
)
from kafkalite.traffic.replay.player.fetch_sessions import (
    FetchSessions,
    ShareSessions,
    without_session,
)
from kafkalite.traffic.replay.player.recorded_nodes import RecordedNodes
from kafkalite.traffic.replay.player.splitting import (
    FETCH,
    PARTLY_RETRIABLE_APIS,
    REQUEST_LAYOUTS,
    SESSION_APIS,
    SHARE_FETCH,
    LeaderKind,
    Subject,
)
from kafkalite.traffic.replay.rewriting.id_mapping import Scope, ValueKind
from kafkalite.traffic.replay.rewriting.requests import frame_of
from kafkalite.traffic.scalar.messages import parse_request, parse_response, response_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.traffic.model import Connection, Exchange
    from kafkalite.traffic.replay.player.fetch_sessions import Session
    from kafkalite.traffic.replay.player.splitting import RequestLayout
    from kafkalite.traffic.replay.player.target import Target
    from kafkalite.traffic.replay.rewriting.id_mapping import IdMapping


ANY_NODE = -1
"""The node at the bootstrap address."""
_UNKNOWN_EPOCH = -1


class RequestPart(NamedTuple):
    """The part of a request for one node."""

    node: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request as it is sent to the target."""

    parts: tuple[RequestPart, ...]
    subjects: tuple[Subject, ...] = ()
    is_split: bool = False
    """Whether the parts were encoded from the parsed request; otherwise its frame is sent as is."""
    session: Session | None = None
    """The fetch session of a Fetch request."""


@dataclass(frozen=True, slots=True)
class Resend:
    """The parts of a request to send again."""

    parts: tuple[RequestPart, ...]
    partial_response: bytes | None = None
    """The earlier response without the refused subjects; None if all were refused."""


class Routing:
    """Routes the requests of one replay to the nodes of its target."""

    def __init__(self, target: Target, mapping: IdMapping) -> None:
        self._target = target
        self._mapping = mapping
        self._recorded_nodes = RecordedNodes(target.nodes, mapping)
        self._locator = NodeLocator(target)
        self._fetch_sessions = FetchSessions()
        self._share_sessions = ShareSessions()

    def learn_from(self, exchange: Exchange) -> None:
        """Learn the recorded nodes from a recorded response."""
        self._recorded_nodes.learn_from(exchange)

    def home_node(self, connection: Connection) -> int:
        """Return the target's node that the node of a recorded connection maps to."""
        node = self._recorded_nodes.node(connection) if self._target.has_several_nodes else None
        return ANY_NODE if node is None else node

    async def plan(self, exchange: Exchange, frame: bytes) -> PlannedRequest:
        """Return the parts of a request; raises UnreachableError if the target is unreachable."""
        home = self.home_node(exchange.connection)
        layout = REQUEST_LAYOUTS.get(exchange.api_key) if self._target.has_several_nodes else None
        if layout is None:
            return PlannedRequest((RequestPart(home, frame),))
        try:
            request = _parse_request(exchange, frame)
            if exchange.api_key == FETCH:
                return await self._plan_fetch(exchange, frame, request, home)
            if exchange.api_key in SESSION_APIS:
                return await self._plan_share_request(exchange, request, home)
        except (KeyError, *codec.PARSE_ERRORS):
            return PlannedRequest((RequestPart(home, frame),))
        subjects = tuple(layout.subjects(request))
        split = await self._split(layout, request, subjects, home)
        if len(split) > 1:
            return _split_request(exchange, split, subjects)
        return PlannedRequest((RequestPart(next(iter(split), home), frame),), subjects)

    async def _split(
        self,
        layout: RequestLayout,
        request: Any,  # noqa: ANN401 - of the API
        subjects: Sequence[Subject],
        home: int,
    ) -> dict[int, Any]:
        nodes = await self._locator.nodes_of(subjects)
        if len({nodes.get(subject, home) for subject in subjects}) > 1 and not layout.outer_rows:
            return layout.split(request, lambda subject: nodes.get(subject, home))
        return {nodes.get(subject, home): request for subject in subjects[:1]}

    async def _plan_fetch(
        self,
        exchange: Exchange,
        frame: bytes,
        request: Any,  # noqa: ANN401 - a FetchRequest
        home: int,
    ) -> PlannedRequest:
        session = self._fetch_sessions.apply(exchange, parse_request(exchange), request)
        full_request = without_session(request, session)
        subjects = tuple(session.rows)
        split = await self._split(REQUEST_LAYOUTS[FETCH], full_request, subjects, home)
        if session.node is None and len(split) <= 1:
            session.node = next(iter(split), home)
        if session.node is not None and not session.is_split and split.keys() <= {session.node}:
            return PlannedRequest((RequestPart(session.node, frame),), subjects, session=session)
        session.is_split = True
        for part in split.values():
            if len(split) > 1:
                part.max_wait_ms = 0  # otherwise nodes without new records would delay the others
        return _split_request(exchange, split or {home: full_request}, subjects, session)

    async def _plan_share_request(
        self,
        exchange: Exchange,
        request: Any,  # noqa: ANN401 - of the API
        home: int,
    ) -> PlannedRequest:
        layout = REQUEST_LAYOUTS[exchange.api_key]
        subjects = tuple(layout.subjects(request))
        subject_nodes = await self._locator.nodes_of(subjects)
        split = layout.split(request, lambda subject: subject_nodes.get(subject, home))
        nodes = self._share_sessions.nodes(exchange, request)
        for node in nodes or [home]:
            if node not in split and (exchange.api_key == SHARE_FETCH or not split):
                split[node] = layout.without_rows(request)
        for node, part in split.items():
            if len(split) > 1 and exchange.api_key == SHARE_FETCH:
                part.max_wait_ms = 0
            self._share_sessions.set_epoch(exchange, part, node)
        return _split_request(exchange, split, subjects)

    def retry_policy(self, exchange: Exchange, planned: PlannedRequest) -> RetryPolicy:
        """Return the conditions for retrying a request."""
        if planned.session is not None:
            return FETCH_RETRY_POLICY
        return RetryPolicy(is_partly_retriable=exchange.api_key in PARTLY_RETRIABLE_APIS)

    async def resend(
        self, exchange: Exchange, planned: PlannedRequest, part: RequestPart, answer: bytes
    ) -> Resend:
        """Return the parts of a request to send again after retriable errors.

        If the request belongs to a session whose partitions are unknown, it is sent to the same
        node again.
        """
        if planned.session is not None:
            return await self._resend_fetch(exchange, planned.session, part, answer)
        if exchange.api_key in SESSION_APIS:
            return Resend((part,))
        frame, partial_response = part.frame, None
        if exchange.api_key in PARTLY_RETRIABLE_APIS:
            layout = REQUEST_LAYOUTS[exchange.api_key]
            request = _parse_request(exchange, frame)
            response = _parse_response(exchange, answer)
            refused = layout.refused_subjects(response, RETRY_LIMITS)
            split = layout.split(request, lambda subject: int(subject in refused))
            if len(split) > 1:
                partial_response = _response_frame(
                    exchange, answer, layout.remove_subjects(response, refused)
                )
            if 1 in split:
                await self._update_leader_epochs(layout, split[1])
                frame = _request_frame(exchange, split[1])
        return Resend((await self.plan(exchange, frame)).parts, partial_response)

    async def _resend_fetch(
        self, exchange: Exchange, session: Session, part: RequestPart, answer: bytes
    ) -> Resend:
        """Return a request for the refused partitions with current leaders and leader epochs.

        The request has no session: either the session's node does not lead all of its partitions,
        or the node has evicted the session.
        """
        layout = REQUEST_LAYOUTS[FETCH]
        request = _parse_request(exchange, part.frame)
        response = _parse_response(exchange, answer)
        partial_response = None
        if request.session_epoch >= 0:
            request = without_session(request, session)
        if not response.error_code:
            refused = layout.refused_subjects(response, RETRY_LIMITS)
            partial_response = _response_frame(
                exchange, answer, layout.remove_subjects(response, refused)
            )
            split = layout.split(request, lambda subject: int(subject in refused))
            request = split.get(1, request)
        session.is_split = True
        await self._update_leader_epochs(layout, request)
        request.max_wait_ms = 0  # otherwise nodes without new records would delay the others
        split = await self._split(layout, request, layout.subjects(request), part.node)
        return Resend(
            _split_request(exchange, split or {part.node: request}, ()).parts, partial_response
        )

    async def _update_leader_epochs(self, layout: RequestLayout, request: Any) -> None:  # noqa: ANN401 - of the API
        """Set the leader epochs in a request to the current ones."""
        rows = [
            (subject, part) for subject, _, part in layout.subject_rows(request) if _has_epoch(part)
        ]
        await self._locator.nodes_of(subject for subject, _ in rows)
        for subject, part in rows:
            part.current_leader_epoch = self._locator.epochs.get(subject, _UNKNOWN_EPOCH)

    def forget(self, planned: PlannedRequest) -> None:
        """Remove the cached nodes of a request's subjects, because the nodes may have changed."""
        self._locator.forget(planned.subjects)

    def merge_responses(
        self, exchange: Exchange, planned: PlannedRequest, answers: Sequence[bytes]
    ) -> bytes:
        """Return the merged response, as if one node had sent it."""
        is_split = planned.is_split or (planned.session is not None and planned.session.is_split)
        if not is_split and len(answers) == 1:
            return answers[0]
        try:
            responses = [_parse_response(exchange, answer) for answer in answers]
            merged = REQUEST_LAYOUTS[exchange.api_key].merge(responses)
            if exchange.api_key == FETCH and is_split:
                # Split requests have no session, so the recorded session id is expected.
                recorded = parse_response(exchange).session_id
                merged.session_id = self._mapping.translate(ValueKind.SESSION, Scope(), recorded)
        except ProtocolViolation:
            return answers[0]
        return _response_frame(exchange, answers[0], merged)


def _split_request(
    exchange: Exchange,
    split: dict[int, Any],
    subjects: tuple[Subject, ...],
    session: Session | None = None,
) -> PlannedRequest:
    parts = tuple(
        RequestPart(node, _request_frame(exchange, message)) for node, message in split.items()
    )
    return PlannedRequest(parts, subjects, is_split=True, session=session)


def _has_epoch(part: Any) -> bool:  # noqa: ANN401 - a struct about a partition
    """Whether a row has a current leader epoch."""
    return bool(getattr(part, "current_leader_epoch", _UNKNOWN_EPOCH) != _UNKNOWN_EPOCH)


def _parse_request(exchange: Exchange, frame: bytes) -> Any:  # noqa: ANN401 - a request of the API
    parse = codec.request_parser(exchange.api_key, exchange.api_version)
    return parse(frame, exchange.request_start, len(frame))[0]


def _request_frame(exchange: Exchange, message: Any) -> bytes:  # noqa: ANN401 - a request of the API
    return frame_of(
        exchange.request, exchange.request_start, message, exchange.api_key, exchange.api_version
    )


def _response_frame(exchange: Exchange, answer: bytes, message: Any) -> bytes:  # noqa: ANN401 - its response
    """Return a frame with the header of the response `answer` and the body `message`."""
    start = response_start(answer, exchange.api_key, exchange.api_version)
    out: list[bytes | memoryview] = []
    codec.response_builder(exchange.api_key, exchange.api_version)(message, out)
    return b"".join((answer[:start], *out))


def _parse_response(exchange: Exchange, answer: bytes) -> Any:  # noqa: ANN401 - any response
    start = response_start(answer, exchange.api_key, exchange.api_version)
    parse = codec.response_parser(exchange.api_key, exchange.api_version)
    try:
        message, _ = parse(answer, start, len(answer))
    except codec.PARSE_ERRORS as error:
        raise ProtocolViolation(str(error)) from error
    return message


MAX_CACHED_NODES = 1_000_000


class NodeLocator:
    """Finds and caches the target's nodes that lead or coordinate subjects."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._nodes: dict[Subject, int] = {}
        self.epochs: dict[Subject, int] = {}
        """Leader epochs of partitions in the last metadata."""

    async def nodes_of(self, subjects: Iterable[Subject]) -> dict[Subject, int]:
        """Return subject → node, for all subjects whose node is known.

        The target is asked for the nodes of `subjects` that are not cached.
        """
        unknown = [subject for subject in dict.fromkeys(subjects) if subject not in self._nodes]
        if unknown:
            if len(self._nodes) > MAX_CACHED_NODES:
                self._nodes.clear()
                self.epochs.clear()
            await self._look_up(unknown)
        return self._nodes

    async def _look_up(self, unknown: Iterable[Subject]) -> None:
        topics = [subject.name for subject in unknown if subject.kind is LeaderKind.PARTITION]
        if topics:
            leaders = await self._target.leaders(list(dict.fromkeys(topics)))
            for (topic, partition), leader in leaders.items():
                subject = Subject(LeaderKind.PARTITION, topic, partition)
                self.epochs[subject] = leader.epoch
                if leader.node_id in self._target.nodes:
                    self._nodes[subject] = leader.node_id
        for subject in unknown:
            if subject.kind is not LeaderKind.PARTITION:
                node = await self._target.coordinator(str(subject.name), subject.kind.value)
                if node is not None:
                    self._nodes[subject] = node

    def forget(self, subjects: Iterable[Subject]) -> None:
        """Remove the cached nodes of these subjects."""
        for subject in subjects:
            self._nodes.pop(subject, None)
