"""The control endpoint: commands over HTTP and JSON, for tests in any language.

    GET  /v1                          the list of paths
    GET  /v1/live                     {"status": "ok"}, or "degraded" with status 503 as /v1/health;
                                      it needs no token
    GET  /v1/health                   {"status": "ok", "cluster_id", "bootstrap_servers", "version",
         "listeners", "disk": []}     or "degraded", with the problems of the disk:
         [{"problem": "refused", "path", "reason"}]; status 503 unless all problems are "damaged"
    GET  /v1/clock                    {"now_ms", "iso", "mode", "rate"}
    POST /v1/clock                    one of the following bodies; the response is that of GET:
         {"advance": "7d"}            move time forward and run all timers that are due on the way
         {"advance_ms": 604800000}    the same in milliseconds
         {"now": "2026-03-01T12:00Z"} move time forward to this time; or {"now_ms": …}
         {"mode": "manual"}           stop the clock; it moves only when it is advanced
         {"mode": "real"}             let the clock run at the normal rate again
         {"rate": 60}                 let the clock run 60 times as fast
    GET  /v1/explain?group=g&limit=9  {"now_ms", "iso", "groups", "transactional_ids", "topics",
         "clients", "entries": [{"number", "group", "transactional_id", "topic", "client", "kind",
         "text", "facts", "times", "first_ms", "first_iso", "at_ms", "at_iso"}]}; or
         ?transactional_id=t, ?topic=t or ?client=127.0.0.1
    GET  /v1/client-metrics           {"now_ms", "iso", "problem", "clients": [{"client_id",
         "client_instance_id", "software_name", "address", "pushes", "metrics": [{"name", "type",
         "labels", "value"}]}]}, and more; ?client_id=c for the clients with this client id
    GET  /v1/client-metrics/prometheus?client_id=c    the same in Prometheus's text format
    GET  /v1/faults                   {"faults": [{"id", "match", "trigger", "action", "matches",
         "firings"}]}, in the order in which they were added
    POST /v1/faults                   add a fault; status 201 and the fault with its id
         {"match": {"api": "Produce", "topic": "orders"},
          "trigger": {"times": 1}, "action": {"error": "NOT_ENOUGH_REPLICAS"}}
    DELETE /v1/faults/f1              remove a fault; the response has its final counts
    DELETE /v1/faults                 remove all faults; the response is that of GET
    GET  /v1/nodes                    {"nodes": [{"id", "state", "metadata", "replication",
         "led_partitions", "rack", "registered", "listeners"}]}
    POST /v1/nodes                    add a node; status 201 and the node; both fields are optional
         {"id": 4, "config": {"broker.rack": "b"}}
    GET  /v1/nodes/2                  one node
    POST /v1/nodes/2                  one of the following bodies; the response is that of GET:
         {"state": "stopped"}         or "running", "isolated"
         {"state": "stopped", "controlled": true}    let other nodes lead its partitions first
         {"metadata": "frozen"}       or "live"
         {"replication": "paused"}    or "running"
    DELETE /v1/nodes/2                remove a node without replicas; the response has its state
    POST /v1/leaders                  move the leader of a partition; "unclean" is optional
         {"topic": "orders", "partition": 0, "leader": 2, "unclean": true}
         the response is {"topic", "partition", "leader", "leader_epoch", "replicas", "isr",
         "end_offset", "truncated_records"}
    /v1/identity…                     the identity provider of `--oidc`: see identity_routes.py

An error is answered with {"error": "one sentence"}: 400 for invalid input, 401 without the token of
the endpoint (`Authorization: Bearer TOKEN`), if it has one, 403 for a web page, 408
for a request that arrives too slowly, 503 for too many; 404, 405, 413, 415 and 500 as usual.
A web page in a browser on this machine could send requests to this endpoint. So requests that name
another host, or that have an Origin header, are refused.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kafkalite import __version__
from kafkalite.cluster.node_control import UnknownNodeError
from kafkalite.control.access_checks import AccessChecks, ControlRoute
from kafkalite.control.client_metrics_json import client_metrics_json_pieces
from kafkalite.control.commands import (
    ACCELERATED,
    DEFAULT_EXPLAIN_ENTRIES,
    MAX_EXPLAIN_ENTRIES,
    AddFault,
    AddNode,
    AdvanceClock,
    ClearFaults,
    CommandError,
    Explain,
    ListFaults,
    ListNodes,
    MoveLeader,
    RemoveFault,
    RemoveNode,
    RunClock,
    SetClock,
    SetNodeMetadata,
    SetNodeReplication,
    SetNodeState,
    ShowClientMetrics,
    ShowClock,
    ShowNode,
    perform_client_metrics,
    perform_clock_command,
    perform_explain,
    perform_fault_command,
    perform_move_leader,
    perform_node_command,
    rate_of,
)
from kafkalite.control.identity_routes import IDENTITY_PATHS, IdentityRoutes
from kafkalite.control.request_body import TOO_LARGE_MESSAGE, media_type, read_body
from kafkalite.control.times import duration_ms, instant_ms, iso_of
from kafkalite.gateway.fault_rules import UnknownFaultError, parse_rule, rule_to_json
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.storage.disk_health import DiskProblem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

    from starlette.requests import Request

    from kafkalite.control.commands import (
        ClockCommand,
        ClockState,
        Explanation,
        LeaderStatus,
        NodeChange,
        NodeCommand,
        NodeStatus,
    )
    from kafkalite.control.token import ControlToken
    from kafkalite.coordinator.event_history import Entry, Fact
    from kafkalite.gateway.faults import FaultState
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

_BUG_MESSAGE = "the command failed because of a bug in kafkalite: see the broker's log"

_MAX_LISTED_PROBLEMS = 100
"""Problems of the disk that are listed; a full disk has one for every partition."""

_MAX_NODE_DIGITS = 12
"""Digits of a node id that are read; a longer number is the id of no node."""

_PATHS = {
    "/v1": "GET: this list",
    "/v1/live": "GET: status for a health check; needs no token",
    "/v1/health": "GET: status, addresses, and problems of the disk",
    "/v1/clock": 'GET: the time; POST {"advance": "7d"}, {"mode": "manual"}, {"rate": 60}, …',
    "/v1/faults": 'GET: all; POST {"match", "trigger", "action"}: add one; DELETE: remove all',
    "/v1/faults/ID": "DELETE: remove one",
    "/v1/nodes": 'GET: all nodes with their states; POST {"id", "config"}: add one',
    "/v1/nodes/ID": 'GET: one; POST {"state": "stopped"}, {"metadata": "frozen"}, …; DELETE',
    "/v1/leaders": 'POST {"topic", "partition", "leader", "unclean"}: move a leader',
    "/v1/client-metrics": "GET ?client_id=c: the metrics that clients have pushed",
    "/v1/client-metrics/prometheus": "GET ?client_id=c: the same in Prometheus's text format",
    "/v1/explain": "GET ?group=g, ?transactional_id=t, ?topic=t or ?client=a, &limit=n: history",
    **IDENTITY_PATHS,
}


class ClockJson(TypedDict):
    """The time, and the rate at which it runs."""

    now_ms: int
    """The broker's time in milliseconds since the Unix epoch."""
    iso: str
    """The same time in ISO 8601, UTC."""
    mode: str
    """`real`, `manual` (time is stopped until it is advanced) or `accelerated`."""
    rate: float
    """Speed relative to real time: 1 in mode `real`, 0 in mode `manual`."""


class EntryJson(TypedDict):
    """One entry of the history of a group, a transactional id, a topic or a client."""

    number: int
    """Grows with every event; an event that is repeated gets a new number."""
    group: str | None
    """The group id; null for an event of another subject."""
    transactional_id: str | None
    """The transactional id; null for an event of another subject."""
    topic: str | None
    """The topic; null for an event of another subject."""
    client: str | None
    """The address of the client; null for an event of another subject."""
    kind: str
    """The kind of event in one word, such as `rebalance`, `refused` or `joined`."""
    text: str
    """The event and its reason in one sentence."""
    facts: Mapping[str, Fact]
    """Values in the text by name, such as the member id; the names depend on the kind."""
    times: int
    """Number of events with this text."""
    first_ms: int
    """Time of the first of them, in milliseconds since the Unix epoch."""
    first_iso: str
    """The same time in ISO 8601, UTC."""
    at_ms: int
    """Time of the last of them, in milliseconds since the Unix epoch."""
    at_iso: str
    """The same time in ISO 8601, UTC."""


class ExplanationJson(TypedDict):
    """The history of groups, transactional ids, topics and clients, oldest entry first."""

    now_ms: int
    """The broker's time in milliseconds since the Unix epoch."""
    iso: str
    """The same time in ISO 8601, UTC."""
    groups: Sequence[str]
    """Ids of all groups that have a history."""
    transactional_ids: Sequence[str]
    """All transactional ids that have a history."""
    topics: Sequence[str]
    """All topics that have a history."""
    clients: Sequence[str]
    """The addresses of all clients that have a history."""
    entries: Sequence[EntryJson]
    """The latest entries, at most `limit`."""


class FaultJson(TypedDict):
    """A fault, with the numbers of requests that it selected and those for which it fired."""

    id: str
    """Id with which the fault can be removed."""
    match: Mapping[str, object]
    """Fields of `match` in the rule; empty if the rule selects all requests."""
    trigger: Mapping[str, object]
    """Fields of `trigger` in the rule; empty if the fault fires for each selected request."""
    action: Mapping[str, object]
    """Fields of `action` in the rule."""
    matches: int
    """Number of requests that the rule selected."""
    firings: int
    """Number of requests for which the fault fired."""


class FaultsJson(TypedDict):
    """Faults in the order in which they were added."""

    faults: Sequence[FaultJson]
    """All faults, or those that were removed."""


class NodeJson(TypedDict):
    """A node, and its part in the cluster."""

    id: int
    """Id of the node."""
    state: str
    """`running`, `isolated` (only clients reach it) or `stopped`; `removed` after its removal."""
    metadata: str
    """`live`, `frozen`, or `stale` if it is isolated or stopped and has missed changes."""
    replication: str
    """`running`, or `paused` if its replicas do not follow their leaders."""
    led_partitions: int
    """Number of partitions that it leads, including those of internal topics."""
    rack: str | None
    """Rack of the node, if it has one."""
    registered: bool
    """Whether it is in the metadata; false after UnregisterBroker, until it is started again."""
    listeners: Mapping[str, str]
    """Advertised address by listener name."""


class NodesJson(TypedDict):
    """The nodes of the cluster, by id."""

    nodes: Sequence[NodeJson]
    """All nodes, also stopped ones."""


class LeaderJson(TypedDict):
    """A partition after a change of its leader."""

    topic: str
    """Name of the topic."""
    partition: int
    """Index of the partition."""
    leader: int
    """Node that leads the partition."""
    leader_epoch: int
    """Epoch of the leader."""
    replicas: Sequence[int]
    """Nodes with a replica."""
    isr: Sequence[int]
    """Nodes whose replica is in sync."""
    end_offset: int
    """End offset of the leader's log."""
    truncated_records: int
    """Number of offsets that the change removed because the new leader did not have them."""


def node_to_json(status: NodeStatus) -> NodeJson:
    """Return the JSON representation of a node."""
    return {
        "id": status.node_id,
        "state": status.state,
        "metadata": status.metadata,
        "replication": status.replication,
        "led_partitions": status.led_partitions,
        "rack": status.rack,
        "registered": status.is_registered,
        "listeners": status.listeners,
    }


def leader_to_json(status: LeaderStatus) -> LeaderJson:
    """Return the JSON representation of a partition whose leader was moved."""
    return {
        "topic": status.topic,
        "partition": status.partition,
        "leader": status.leader,
        "leader_epoch": status.leader_epoch,
        "replicas": status.replicas,
        "isr": status.isr,
        "end_offset": status.end_offset,
        "truncated_records": status.truncated_records,
    }


def fault_to_json(state: FaultState) -> FaultJson:
    """Return the JSON representation of a fault."""
    rule = rule_to_json(state.rule)
    return {
        "id": state.id,
        "match": rule["match"],
        "trigger": rule["trigger"],
        "action": rule["action"],
        "matches": state.matches,
        "firings": state.firings,
    }


def clock_to_json(state: ClockState) -> ClockJson:
    """Return the JSON representation of the clock."""
    return {
        "now_ms": state.now_ms,
        "iso": iso_of(state.now_ms),
        "mode": state.mode,
        "rate": state.rate,
    }


def explanation_to_json(explanation: Explanation) -> ExplanationJson:
    """Return the JSON representation of an explanation."""
    return {
        "now_ms": explanation.now_ms,
        "iso": iso_of(explanation.now_ms),
        "groups": explanation.groups,
        "transactional_ids": explanation.transactional_ids,
        "topics": explanation.topics,
        "clients": explanation.clients,
        "entries": [_entry_to_json(entry) for entry in explanation.entries],
    }


def _entry_to_json(entry: Entry) -> EntryJson:
    return {
        "number": entry.number,
        "group": entry.group,
        "transactional_id": entry.transactional_id,
        "topic": entry.topic,
        "client": entry.client,
        "kind": entry.kind,
        "text": entry.text,
        "facts": entry.facts,
        "times": entry.times,
        "first_ms": entry.first_ms,
        "first_iso": iso_of(entry.first_ms),
        "at_ms": entry.at_ms,
        "at_iso": iso_of(entry.at_ms),
    }


# Bodies of POST /v1/clock


def _quote(value: object) -> str:
    return f"{value!r}"[:40]


def _check_integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CommandError(f"{_quote(value)} is not a whole number of milliseconds")
    return value


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise CommandError(f'{_quote(value)} is not text: write a value such as "7d"')
    return value


def _check_rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandError(f"{_quote(value)} is not a rate: write a number, such as 60")
    return value


_CLOCK_COMMANDS: Mapping[str, Callable[[object], ClockCommand]] = {
    "advance": lambda value: AdvanceClock(duration_ms(_check_text(value))),
    "advance_ms": lambda value: AdvanceClock(_check_integer(value)),
    "now": lambda value: SetClock(instant_ms(_check_text(value))),
    "now_ms": lambda value: SetClock(_check_integer(value)),
    "mode": lambda value: RunClock(rate_of(_check_text(value))),
    "rate": lambda value: RunClock(_check_rate(value)),
}


def clock_command(body: object) -> ClockCommand:
    """Parse a body into its command; raises ValueError, with one sentence, if it is invalid."""
    if not isinstance(body, dict):
        raise CommandError('the body must be a JSON object, such as {"advance": "7d"}')
    if body.get("mode") == ACCELERATED and body.keys() == {"mode", "rate"}:
        return RunClock(_check_rate(body["rate"]))
    if len(body) != 1 or not body.keys() <= _CLOCK_COMMANDS.keys():
        raise CommandError(
            f"the body must have exactly one of these fields: {', '.join(_CLOCK_COMMANDS)}"
        )
    ((name, value),) = body.items()
    return _CLOCK_COMMANDS[name](value)


# Bodies of POST /v1/nodes/ID and POST /v1/leaders

NODE_COMMANDS: Mapping[str, Callable[[int, str], NodeChange]] = {
    "state": SetNodeState,
    "metadata": SetNodeMetadata,
    "replication": SetNodeReplication,
}
"""Field of the body → the command that sets it."""


def node_command(node_id: int, body: object) -> NodeChange:
    """Parse a body into its command; raises CommandError, with one sentence, if it is invalid."""
    if not isinstance(body, dict):
        raise CommandError('the body must be a JSON object, such as {"state": "stopped"}')
    if body.keys() == {"state", "controlled"}:
        controlled = body["controlled"]
        if not isinstance(controlled, bool):
            raise CommandError(f"controlled must be true or false, not {_quote(controlled)}")
        return SetNodeState(node_id, _check_node_text("state", body["state"]), controlled)
    if len(body) != 1 or not body.keys() <= NODE_COMMANDS.keys():
        raise CommandError(
            f"the body must have exactly one of these fields: {', '.join(NODE_COMMANDS)}"
        )
    ((name, value),) = body.items()
    return NODE_COMMANDS[name](node_id, _check_node_text(name, value))


def _check_node_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise CommandError(f"{name} must be text, not {_quote(value)}")
    return value


def added_node(body: object) -> AddNode:
    """Parse a body into its command; raises CommandError, with one sentence, if it is invalid."""
    if not isinstance(body, dict):
        raise CommandError("the body must be a JSON object, such as {}")
    if not body.keys() <= {"id", "config"}:
        raise CommandError("the fields of the body are id and config, both optional")
    node_id, config = body.get("id"), body.get("config", {})
    if not isinstance(config, dict):
        raise CommandError(f"config must be an object, not {_quote(config)}")
    return AddNode(
        None if node_id is None else _check_number("id", node_id),
        {key: _check_node_text(key[:40], value) for key, value in config.items()},
    )


def leader_command(body: object) -> MoveLeader:
    """Parse a body into its command; raises CommandError, with one sentence, if it is invalid."""
    if not isinstance(body, dict):
        raise CommandError(
            'the body must be a JSON object, such as {"topic": "t", "partition": 0, "leader": 2}'
        )
    required, optional = {"topic", "partition", "leader"}, {"unclean"}
    if not required <= body.keys() <= required | optional:
        raise CommandError(
            "the fields of the body are topic, partition, leader, and optionally unclean"
        )
    topic, unclean = body["topic"], body.get("unclean", False)
    if not isinstance(topic, str) or invalid_name_reason(topic) is not None:
        raise CommandError(f"topic must be the name of a topic, not {_quote(topic)}")
    if not isinstance(unclean, bool):
        raise CommandError(f"unclean must be true or false, not {_quote(unclean)}")
    return MoveLeader(
        topic,
        _check_number("partition", body["partition"]),
        _check_number("leader", body["leader"]),
        unclean,
    )


def _check_number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CommandError(f"{name} must be a whole number, not {_quote(value)}")
    return value


# The application


def _ignore_refusal(client_host: str, reason: str) -> None:
    """Do nothing."""


class ControlApp:
    """The HTTP application that controls one broker."""

    def __init__(
        self,
        broker: Broker,
        log: Log,
        allowed_hosts: Sequence[str] | None,
        token: ControlToken | None = None,
        report_refusal: Callable[[str, str], None] = _ignore_refusal,
    ) -> None:
        """Serve requests that have `token`, unless it is None or the route is open.

        `allowed_hosts` and `report_refusal` are those of AccessChecks.
        """
        self._broker = broker
        self._log = log
        table = (
            ControlRoute("/v1", self._index),
            ControlRoute("/v1/live", self._live, needs_token=False),
            ControlRoute("/v1/health", self._health),
            ControlRoute("/v1/clock", self._clock, ("GET", "POST")),
            ControlRoute("/v1/explain", self._explain),
            ControlRoute("/v1/client-metrics", self._client_metrics),
            ControlRoute("/v1/client-metrics/prometheus", self._prometheus),
            ControlRoute("/v1/faults", self._faults, ("GET", "POST", "DELETE")),
            ControlRoute("/v1/faults/{fault_id:path}", self._fault, ("DELETE",)),
            ControlRoute("/v1/nodes", self._nodes, ("GET", "POST")),
            ControlRoute("/v1/nodes/{node_id:path}", self._node, ("GET", "POST", "DELETE")),
            ControlRoute("/v1/leaders", self._leaders, ("POST",)),
            *IdentityRoutes(self._broker, _json_body).routes(),
        )
        self.app = Starlette(
            routes=[
                Route(each.path, partial(self._answer, each.handler), methods=[*each.methods])
                for each in table
            ],
            middleware=[
                Middleware(
                    AccessChecks,
                    allowed_hosts=allowed_hosts,
                    token=token,
                    open_paths={each.path for each in table if not each.needs_token},
                    report=report_refusal,
                )
            ],
            exception_handlers={HTTPException: _answer_http_error, Exception: _answer_bug},
        )
        self.app.router.redirect_slashes = False

    async def _answer(
        self, handler: Callable[[Request], Awaitable[object]], request: Request
    ) -> Response:
        try:
            result = await handler(request)
            return result if isinstance(result, Response) else JSONResponse(result)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - the endpoint must stay available
            self._log.error("a control command failed because of a bug", exception=error)
            raise HTTPException(500, _BUG_MESSAGE) from None

    async def _index(self, request: Request) -> object:
        del request
        return {"kafkalite": __version__, "paths": _PATHS}

    @property
    def _is_serving(self) -> bool:
        # Orchestrators restart or isolate a broker whose probe fails. That is right if it cannot
        # store records. A damaged file affects one log only, and a restart would not repair it.
        failures = self._broker.disk_failures
        return all(failure.problem is DiskProblem.DAMAGED for failure in failures)

    async def _live(self, request: Request) -> object:
        del request
        is_serving = self._is_serving
        return JSONResponse(
            {"status": "ok" if is_serving else "degraded"}, 200 if is_serving else 503
        )

    async def _health(self, request: Request) -> object:
        del request
        broker = self._broker
        failures = broker.disk_failures
        health = {
            "status": "degraded" if failures else "ok",
            "version": __version__,
            "cluster_id": broker.cluster_id,
            "bootstrap_servers": broker.bootstrap_servers,
            "listeners": broker.bootstrap_by_listener(),
            "disk": [
                {"problem": failure.problem.value, "path": failure.path, "reason": failure.reason}
                for failure in failures[:_MAX_LISTED_PROBLEMS]
            ],
        }
        return JSONResponse(health, 200 if self._is_serving else 503)

    async def _clock(self, request: Request) -> object:
        command: ClockCommand = ShowClock()
        if request.method == "POST":
            command = clock_command(await _json_body(request))
        return clock_to_json(await perform_clock_command(self._broker, command))

    async def _faults(self, request: Request) -> object:
        if request.method == "POST":
            command = AddFault(parse_rule(await _json_body(request)))
            (added,) = perform_fault_command(self._broker, command)
            return JSONResponse(fault_to_json(added), 201)
        is_removal = request.method == "DELETE"
        faults = perform_fault_command(self._broker, ClearFaults() if is_removal else ListFaults())
        return {"faults": [fault_to_json(fault) for fault in faults]}

    async def _fault(self, request: Request) -> object:
        command = RemoveFault(request.path_params["fault_id"])
        try:
            (removed,) = perform_fault_command(self._broker, command)
        except UnknownFaultError as unknown:
            return JSONResponse({"error": str(unknown)}, 404)
        return fault_to_json(removed)

    async def _nodes(self, request: Request) -> object:
        if request.method == "POST":
            command = added_node(await _json_body(request))
            (added,) = await perform_node_command(self._broker, command)
            return JSONResponse(node_to_json(added), 201)
        nodes = await perform_node_command(self._broker, ListNodes())
        return {"nodes": [node_to_json(node) for node in nodes]}

    async def _node(self, request: Request) -> object:
        text = request.path_params["node_id"]
        if not text.isascii() or not text.isdigit():
            return JSONResponse({"error": f"{_quote(text)} is not the id of a node"}, 404)
        node_id = int(text[:_MAX_NODE_DIGITS])
        command: NodeCommand = ShowNode(node_id)
        try:
            if request.method == "POST":
                command = node_command(node_id, await _json_body(request))
            elif request.method == "DELETE":
                command = RemoveNode(node_id)
            (node,) = await perform_node_command(self._broker, command)
        except UnknownNodeError as unknown:
            return JSONResponse({"error": str(unknown)}, 404)
        return node_to_json(node)

    async def _leaders(self, request: Request) -> object:
        command = leader_command(await _json_body(request))
        return leader_to_json(await perform_move_leader(self._broker, command))

    async def _client_metrics(self, request: Request) -> object:
        status = perform_client_metrics(self._broker, _client_metrics_command(request))
        pieces = client_metrics_json_pieces(status)
        return StreamingResponse(_in_turns(pieces), media_type="application/json")

    async def _prometheus(self, request: Request) -> object:
        from kafkalite.telemetry.otlp import MissingPackageError  # noqa: PLC0415 - rarely used
        from kafkalite.telemetry.prometheus_text import CONTENT_TYPE, prometheus_pieces  # noqa: PLC0415 - as above

        status = perform_client_metrics(self._broker, _client_metrics_command(request))
        try:
            pieces = prometheus_pieces(status.clients)
        except MissingPackageError as missing:
            raise CommandError(str(missing)) from missing
        return StreamingResponse(_in_turns(pieces), media_type=CONTENT_TYPE)

    async def _explain(self, request: Request) -> object:
        parameters = request.query_params
        unknown = parameters.keys() - {"group", "transactional_id", "topic", "client", "limit"}
        if unknown:
            raise CommandError(
                "the parameters of explain are group, transactional_id, topic, client and limit, "
                f"not {min(unknown)[:40]!r}"
            )
        limit = parameters.get("limit", f"{DEFAULT_EXPLAIN_ENTRIES}")
        if (
            not limit.isascii()
            or not limit.isdigit()
            or not 1 <= int(limit[:9]) <= MAX_EXPLAIN_ENTRIES
        ):
            raise CommandError(
                f"limit must be a number from 1 to {MAX_EXPLAIN_ENTRIES}, not {limit[:40]!r}"
            )
        command = Explain(
            parameters.get("group"),
            int(limit[:9]),
            parameters.get("transactional_id"),
            parameters.get("topic"),
            parameters.get("client"),
        )
        return explanation_to_json(perform_explain(self._broker, command))


async def _in_turns(pieces: Iterable[str]) -> AsyncIterator[str]:
    """Yield the pieces of an answer, and let other tasks run before each of them."""
    for piece in pieces:
        await asyncio.sleep(0)
        if piece:
            yield piece


def _client_metrics_command(request: Request) -> ShowClientMetrics:
    """Parse the query; raises CommandError, with one sentence, if it is invalid."""
    parameters = request.query_params
    unknown = parameters.keys() - {"client_id"}
    if unknown:
        raise CommandError(
            f"the parameter of client-metrics is client_id, not {min(unknown)[:40]!r}"
        )
    return ShowClientMetrics(parameters.get("client_id"))


async def _json_body(request: Request) -> object:
    if media_type(request) != "application/json":
        raise HTTPException(415, "the body must be JSON: send Content-Type: application/json")
    try:
        body = await read_body(request)
    except ClientDisconnect as disconnect:
        raise CommandError("the client disconnected before the end of the body") from disconnect
    if body is None:
        raise HTTPException(413, TOO_LARGE_MESSAGE)
    try:
        value: object = json.loads(body)
        # JSON can have half of a surrogate pair. No response could have it, so that a command would
        # take effect and fail.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise CommandError("the body is not JSON") from error
    return value


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"][:60]  # request.url needs a Host header that can be parsed
    messages = {
        404: f"{path} does not exist: GET /v1 lists all paths",
        405: f"{path} does not support {request.method[:10]}",
    }
    message = messages.get(error.status_code, error.detail)
    return JSONResponse({"error": message}, status_code=error.status_code, headers=error.headers)


def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer an exception outside of the commands; uvicorn logs it."""
    del request, error
    return JSONResponse({"error": _BUG_MESSAGE}, status_code=500)
