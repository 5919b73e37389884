"""`Routing`: selects the target's nodes for each request, and merges their responses.

If the target has one node, that node gets all requests. On a target of several nodes, leaders and
coordinators differ from those of the recorded cluster. A request is sent to the leader or
coordinator of its routing keys (partitions, groups, transactional ids). If the routing keys belong
to several nodes, the request is sent in parts. Other requests are sent to the default node of their
connection, to which the recorded node maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import parse_request, parse_response, response_start
from kafkalite.lab.replay.comparison.refusals import (
    FETCH_RETRY_POLICY,
    RETRY_LIMITS,
    RetryPolicy,
)
from kafkalite.lab.replay.player.fetch_sessions import (
    FetchSessions,
    ShareSessions,
    without_session,
)
from kafkalite.lab.replay.player.recorded_nodes import RecordedNodes
from kafkalite.lab.replay.player.splitting import (
    FETCH,
    PARTLY_RETRIABLE_APIS,
    REQUEST_LAYOUTS,
    SESSION_APIS,
    SHARE_FETCH,
    LeaderKind,
    RoutingKey,
)
from kafkalite.lab.replay.rewriting.id_mapping import Scope, ValueKind
from kafkalite.lab.replay.rewriting.requests import build_frame
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.capture.model import Connection, Exchange
    from kafkalite.lab.replay.player.fetch_sessions import Session
    from kafkalite.lab.replay.player.splitting import RequestLayout
    from kafkalite.lab.replay.player.target import Target
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping


ANY_NODE = -1
"""The node at the bootstrap address."""
_UNKNOWN_EPOCH = -1


class RequestPart(NamedTuple):
    """The part of a request for one node."""

    node: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request in the form in which it is sent to the target."""

    parts: tuple[RequestPart, ...]
    routing_keys: tuple[RoutingKey, ...] = ()
    is_split: bool = False
    """Whether the parts were encoded from the parsed request; otherwise its frame is sent as is."""
    session: Session | None = None
    """The fetch session of a Fetch request."""


@dataclass(frozen=True, slots=True)
class Resend:
    """The parts of a request to send again."""

    parts: tuple[RequestPart, ...]
    partial_response: bytes | None = None
    """The earlier response without the refused routing keys; None if all were refused."""


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

    def default_node(self, connection: Connection) -> int:
        """Return the target's node to which the recorded node of a connection maps."""
        node = self._recorded_nodes.node(connection) if self._target.has_several_nodes else None
        return ANY_NODE if node is None else node

    async def plan(self, exchange: Exchange, frame: bytes) -> PlannedRequest:
        """Return the parts of a request; raises UnreachableError if the target is unreachable."""
        default_node = self.default_node(exchange.connection)
        layout = REQUEST_LAYOUTS.get(exchange.api_key) if self._target.has_several_nodes else None
        if layout is None:
            return PlannedRequest((RequestPart(default_node, frame),))
        try:
            request = _parse_request(exchange, frame)
            if exchange.api_key == FETCH:
                return await self._plan_fetch(exchange, frame, request, default_node)
            if exchange.api_key in SESSION_APIS:
                return await self._plan_share_request(exchange, request, default_node)
        except (KeyError, *codec.PARSE_ERRORS):
            return PlannedRequest((RequestPart(default_node, frame),))
        routing_keys = tuple(layout.routing_keys(request))
        parts_by_node = await self._split(layout, request, routing_keys, default_node)
        if len(parts_by_node) > 1:
            return _split_request(exchange, parts_by_node, routing_keys)
        return PlannedRequest(
            (RequestPart(next(iter(parts_by_node), default_node), frame),), routing_keys
        )

    async def _split(
        self,
        layout: RequestLayout,
        request: Any,  # noqa: ANN401 - of the API
        routing_keys: Sequence[RoutingKey],
        default_node: int,
    ) -> dict[int, Any]:
        nodes = await self._locator.nodes_of(routing_keys)
        if (
            len({nodes.get(routing_key, default_node) for routing_key in routing_keys}) > 1
            and not layout.outer_rows
        ):
            return layout.split(request, lambda routing_key: nodes.get(routing_key, default_node))
        return {nodes.get(routing_key, default_node): request for routing_key in routing_keys[:1]}

    async def _plan_fetch(
        self,
        exchange: Exchange,
        frame: bytes,
        request: Any,  # noqa: ANN401 - a FetchRequest
        default_node: int,
    ) -> PlannedRequest:
        session = self._fetch_sessions.apply(exchange, parse_request(exchange), request)
        full_request = without_session(request, session)
        routing_keys = tuple(session.rows)
        parts_by_node = await self._split(
            REQUEST_LAYOUTS[FETCH], full_request, routing_keys, default_node
        )
        if session.node is None and len(parts_by_node) <= 1:
            session.node = next(iter(parts_by_node), default_node)
        if (
            session.node is not None
            and not session.is_split
            and parts_by_node.keys() <= {session.node}
        ):
            return PlannedRequest(
                (RequestPart(session.node, frame),), routing_keys, session=session
            )
        session.is_split = True
        for part in parts_by_node.values():
            if len(parts_by_node) > 1:
                part.max_wait_ms = 0  # otherwise nodes without new records would delay the others
        return _split_request(
            exchange, parts_by_node or {default_node: full_request}, routing_keys, session
        )

    async def _plan_share_request(
        self,
        exchange: Exchange,
        request: Any,  # noqa: ANN401 - of the API
        default_node: int,
    ) -> PlannedRequest:
        layout = REQUEST_LAYOUTS[exchange.api_key]
        routing_keys = tuple(layout.routing_keys(request))
        nodes_by_key = await self._locator.nodes_of(routing_keys)
        parts_by_node = layout.split(
            request, lambda routing_key: nodes_by_key.get(routing_key, default_node)
        )
        nodes = self._share_sessions.nodes(exchange, request)
        for node in nodes or [default_node]:
            if node not in parts_by_node and (exchange.api_key == SHARE_FETCH or not parts_by_node):
                parts_by_node[node] = layout.without_rows(request)
        for node, part in parts_by_node.items():
            if len(parts_by_node) > 1 and exchange.api_key == SHARE_FETCH:
                part.max_wait_ms = 0
            self._share_sessions.set_epoch(exchange, part, node)
        return _split_request(exchange, parts_by_node, routing_keys)

    def retry_policy(self, exchange: Exchange, planned: PlannedRequest) -> RetryPolicy:
        """Return the conditions for retrying a request."""
        if planned.session is not None:
            return FETCH_RETRY_POLICY
        return RetryPolicy(is_partly_retriable=exchange.api_key in PARTLY_RETRIABLE_APIS)

    async def resend(
        self, exchange: Exchange, planned: PlannedRequest, part: RequestPart, response_frame: bytes
    ) -> Resend:
        """Return the parts of a request to send again after retriable errors.

        If the request belongs to a session whose partitions are unknown, it is sent to the same
        node again.
        """
        if planned.session is not None:
            return await self._resend_fetch(exchange, planned.session, part, response_frame)
        if exchange.api_key in SESSION_APIS:
            return Resend((part,))
        frame, partial_response = part.frame, None
        if exchange.api_key in PARTLY_RETRIABLE_APIS:
            layout = REQUEST_LAYOUTS[exchange.api_key]
            request = _parse_request(exchange, frame)
            response = _parse_response(exchange, response_frame)
            refused = layout.refused_keys(response, RETRY_LIMITS)
            by_refusal = layout.split(request, lambda routing_key: int(routing_key in refused))
            if len(by_refusal) > 1:
                partial_response = _build_response_frame(
                    exchange, response_frame, layout.remove_keys(response, refused)
                )
            if 1 in by_refusal:
                await self._update_leader_epochs(layout, by_refusal[1])
                frame = _build_request_frame(exchange, by_refusal[1])
        return Resend((await self.plan(exchange, frame)).parts, partial_response)

    async def _resend_fetch(
        self, exchange: Exchange, session: Session, part: RequestPart, response_frame: bytes
    ) -> Resend:
        """Return a request for the refused partitions with current leaders and leader epochs.

        The request has no session: either the session's node does not lead all of its partitions,
        or the node has evicted the session.
        """
        layout = REQUEST_LAYOUTS[FETCH]
        request = _parse_request(exchange, part.frame)
        response = _parse_response(exchange, response_frame)
        partial_response = None
        if request.session_epoch >= 0:
            request = without_session(request, session)
        if not response.error_code:
            refused = layout.refused_keys(response, RETRY_LIMITS)
            partial_response = _build_response_frame(
                exchange, response_frame, layout.remove_keys(response, refused)
            )
            by_refusal = layout.split(request, lambda routing_key: int(routing_key in refused))
            request = by_refusal.get(1, request)
        session.is_split = True
        await self._update_leader_epochs(layout, request)
        request.max_wait_ms = 0  # otherwise nodes without new records would delay the others
        parts_by_node = await self._split(layout, request, layout.routing_keys(request), part.node)
        return Resend(
            _split_request(exchange, parts_by_node or {part.node: request}, ()).parts,
            partial_response,
        )

    async def _update_leader_epochs(self, layout: RequestLayout, request: Any) -> None:  # noqa: ANN401 - of the API
        """Set the leader epochs in a request to the current ones."""
        rows = [
            (routing_key, row)
            for routing_key, _, row in layout.keyed_rows(request)
            if _has_leader_epoch(row)
        ]
        await self._locator.nodes_of(routing_key for routing_key, _ in rows)
        for routing_key, row in rows:
            row.current_leader_epoch = self._locator.epochs.get(routing_key, _UNKNOWN_EPOCH)

    def forget(self, planned: PlannedRequest) -> None:
        """Remove the cached nodes of a request's keys, because the nodes may have changed."""
        self._locator.forget(planned.routing_keys)

    def merge_responses(
        self, exchange: Exchange, planned: PlannedRequest, response_frames: Sequence[bytes]
    ) -> bytes:
        """Return the merged response, as if one node had sent it."""
        is_split = planned.is_split or (planned.session is not None and planned.session.is_split)
        if not is_split and len(response_frames) == 1:
            return response_frames[0]
        try:
            responses = [
                _parse_response(exchange, response_frame) for response_frame in response_frames
            ]
            merged = REQUEST_LAYOUTS[exchange.api_key].merge(responses)
            if exchange.api_key == FETCH and is_split:
                # Split requests have no session, so the recorded session id is expected.
                recorded = parse_response(exchange).session_id
                merged.session_id = self._mapping.translate(ValueKind.SESSION, Scope(), recorded)
        except ProtocolViolation:
            return response_frames[0]
        return _build_response_frame(exchange, response_frames[0], merged)


def _split_request(
    exchange: Exchange,
    parts_by_node: dict[int, Any],
    routing_keys: tuple[RoutingKey, ...],
    session: Session | None = None,
) -> PlannedRequest:
    parts = tuple(
        RequestPart(node, _build_request_frame(exchange, message))
        for node, message in parts_by_node.items()
    )
    return PlannedRequest(parts, routing_keys, is_split=True, session=session)


def _has_leader_epoch(row: Any) -> bool:  # noqa: ANN401 - a struct about a partition
    """Whether a row has a current leader epoch."""
    return bool(getattr(row, "current_leader_epoch", _UNKNOWN_EPOCH) != _UNKNOWN_EPOCH)


def _parse_request(exchange: Exchange, frame: bytes) -> Any:  # noqa: ANN401 - a request of the API
    parse = codec.request_parser(exchange.api_key, exchange.api_version)
    return parse(frame, exchange.request_start, len(frame))[0]


def _build_request_frame(exchange: Exchange, message: Any) -> bytes:  # noqa: ANN401 - a request of the API
    return build_frame(
        exchange.request, exchange.request_start, message, exchange.api_key, exchange.api_version
    )


def _build_response_frame(exchange: Exchange, response_frame: bytes, message: Any) -> bytes:  # noqa: ANN401 - its response
    """Return a frame with the header of the response `response_frame` and the body `message`."""
    start = response_start(response_frame, exchange.api_key, exchange.api_version)
    out: list[bytes | memoryview] = []
    codec.response_builder(exchange.api_key, exchange.api_version)(message, out)
    return b"".join((response_frame[:start], *out))


def _parse_response(exchange: Exchange, response_frame: bytes) -> Any:  # noqa: ANN401 - any response
    start = response_start(response_frame, exchange.api_key, exchange.api_version)
    parse = codec.response_parser(exchange.api_key, exchange.api_version)
    try:
        message, _ = parse(response_frame, start, len(response_frame))
    except codec.PARSE_ERRORS as error:
        raise ProtocolViolation(str(error)) from error
    return message


MAX_CACHED_NODES = 1_000_000


class NodeLocator:
    """Finds and caches the target's leaders and coordinators of routing keys."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._nodes: dict[RoutingKey, int] = {}
        self.epochs: dict[RoutingKey, int] = {}
        """Leader epochs of partitions in the last metadata."""

    async def nodes_of(self, routing_keys: Iterable[RoutingKey]) -> dict[RoutingKey, int]:
        """Return routing key → node, for all keys whose node is known.

        The nodes of `routing_keys` that are not cached are requested from the target.
        """
        unknown = [
            routing_key
            for routing_key in dict.fromkeys(routing_keys)
            if routing_key not in self._nodes
        ]
        if unknown:
            if len(self._nodes) > MAX_CACHED_NODES:
                self._nodes.clear()
                self.epochs.clear()
            await self._look_up(unknown)
        return self._nodes

    async def _look_up(self, unknown: Iterable[RoutingKey]) -> None:
        topics = [
            routing_key.name for routing_key in unknown if routing_key.kind is LeaderKind.PARTITION
        ]
        if topics:
            leaders = await self._target.fetch_leaders(list(dict.fromkeys(topics)))
            for (topic, partition), leader in leaders.items():
                routing_key = RoutingKey(LeaderKind.PARTITION, topic, partition)
                self.epochs[routing_key] = leader.epoch
                if leader.node_id in self._target.nodes:
                    self._nodes[routing_key] = leader.node_id
        for routing_key in unknown:
            if routing_key.kind is not LeaderKind.PARTITION:
                node = await self._target.find_coordinator(
                    str(routing_key.name), routing_key.kind.value
                )
                if node is not None:
                    self._nodes[routing_key] = node

    def forget(self, routing_keys: Iterable[RoutingKey]) -> None:
        """Remove the cached nodes of these routing keys."""
        for routing_key in routing_keys:
            self._nodes.pop(routing_key, None)
