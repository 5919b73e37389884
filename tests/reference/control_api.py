"""The page of the control API: routes, bodies and responses."""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple, cast

from kafkalite.control import http
from kafkalite.control.commands import DEFAULT_EXPLAIN_ENTRIES, MAX_EXPLAIN_ENTRIES
from kafkalite.gateway.fault_rules import MAX_DELAY_MS
from tests.architecture.source import PACKAGE
from tests.reference.markdown import code, page, table
from tests.reference.record_tags import attribute_docstrings


class ControlRoute(NamedTuple):
    """A method of a route: its purpose, its body or parameters, and the form of its response."""

    purpose: str
    body: str = ""
    response: str = ""


_INTRODUCTION = """\
`kafkalite serve --control`, or `Broker(control=True)`, serves this API. Bodies and responses are
JSON; a request with a body needs the header `Content-Type: application/json`. By default only this
machine can reach the API. If it has a token, a request needs the header
`Authorization: Bearer TOKEN`. Requests from web pages are refused.
[Control a broker over HTTP](../how-to/control.md) has examples."""

ROUTES: dict[tuple[str, str], ControlRoute] = {
    ("GET", "/v1"): ControlRoute("List the routes.", response='`{"kafkalite": VERSION, "paths": {…}}`'),
    ("GET", "/v1/live"): ControlRoute(
        "Return whether the broker serves, for a health check. It needs no token. The HTTP status is "
        "that of `GET /v1/health`.",
        response='`{"status": "ok"}` or `{"status": "degraded"}`',
    ),
    ("GET", "/v1/health"): ControlRoute(
        "Return the health of the broker. The HTTP status is 503 if the disk refuses writes or files "
        "are missing, else 200.",
        response='`{"status": "ok", "version", "cluster_id", "bootstrap_servers", "listeners", "disk": '
        '[]}`. With disk failures `status` is `"degraded"`, and `disk` lists up to 100 of `{"problem", '
        '"path", "reason"}`.',
    ),
    ("GET", "/v1/clock"): ControlRoute("Return the time of the broker.", response="[ClockJson](#clockjson)"),
    ("POST", "/v1/clock"): ControlRoute(
        "Change the clock, and return it. Before the response is sent, all timers that are due by the "
        "new time have run.",
        "[one clock command](#clock-commands)",
        "[ClockJson](#clockjson)",
    ),
    ("GET", "/v1/explain"): ControlRoute(
        "Return the history of a group, of a transactional id, of a topic, or of all.",
        "parameters `group`, `transactional_id` or `topic`, and `limit` (1 to "
        f"{MAX_EXPLAIN_ENTRIES}; default {DEFAULT_EXPLAIN_ENTRIES})",
        "[ExplanationJson](#explanationjson)",
    ),
    ("GET", "/v1/faults"): ControlRoute("List all faults.", response="[FaultsJson](#faultsjson)"),
    ("POST", "/v1/faults"): ControlRoute(
        "Add a fault. The HTTP status is 201.", "[a fault rule](#fault-rules)", "[FaultJson](#faultjson)"
    ),
    ("DELETE", "/v1/faults"): ControlRoute(
        "Remove all faults; return them with their final counts.", response="[FaultsJson](#faultsjson)"
    ),
    ("DELETE", "/v1/faults/ID"): ControlRoute(
        "Remove a fault; return it with its final counts. The HTTP status is 404 for an unknown id.",
        response="[FaultJson](#faultjson)",
    ),
    ("GET", "/v1/nodes"): ControlRoute("List all nodes with their states.", response="[NodesJson](#nodesjson)"),
    ("POST", "/v1/nodes"): ControlRoute(
        "Add a node. The HTTP status is 201.",
        '`{"id", "config"}`, both optional: by default the id after the largest one. `config` has '
        'configurations such as `"broker.rack"`.',
        "[NodeJson](#nodejson)",
    ),
    ("DELETE", "/v1/nodes/ID"): ControlRoute(
        "Remove a node without replicas; a running node is shut down before. The HTTP status is 404 for an "
        "unknown id.",
        response='[NodeJson](#nodejson), with the state `"removed"`',
    ),
    ("GET", "/v1/nodes/ID"): ControlRoute(
        "Return a node. The HTTP status is 404 for an unknown id.", response="[NodeJson](#nodejson)"
    ),
    ("POST", "/v1/nodes/ID"): ControlRoute(
        "Change a node, and return it. The HTTP status is 404 for an unknown id.",
        "[one change of a node](#changes-of-nodes)",
        "[NodeJson](#nodejson)",
    ),
    ("POST", "/v1/leaders"): ControlRoute(
        "Make a node the leader of a partition, and return the partition. Nothing changes if the node is "
        "the leader already.",
        '`{"topic", "partition", "leader"}`, and `"unclean": true` to accept a replica that is '
        "not in sync",
        "[LeaderJson](#leaderjson)",
    ),
}  # fmt: skip

_CLOCK_COMMANDS: dict[str, tuple[str, str]] = {
    "advance": ('{"advance": "7d"}', "advance by a duration: `7d`, `12h`, `30m`, `10s`, `250ms`, `1h30m`"),
    "advance_ms": ('{"advance_ms": 1000}', "advance by milliseconds"),
    "now": ('{"now": "2026-03-01T12:00:00Z"}', "advance to a time; it must not be in the past"),
    "now_ms": ('{"now_ms": 1772366400000}', "advance to a time in milliseconds since the Unix epoch"),
    "mode": ('{"mode": "manual"}', 'stop the clock until it is advanced; `"real"` lets it run again'),
    "rate": ('{"rate": 60}', "let the clock run 60 times as fast as real time"),
}  # fmt: skip

NODE_FIELDS: dict[str, dict[str, str]] = {
    "state": {
        "stopped": "stop the node as if its process was killed",
        "isolated": "cut the node off from the other nodes; clients still reach it",
        "running": "start a stopped node, or connect an isolated one",
    },
    "metadata": {
        "frozen": "let the node keep its present metadata",
        "live": "let the node receive all changes of the metadata again",
    },
    "replication": {
        "paused": "let the replicas of the node stay where they are, so that they lag",
        "running": "let the replicas of the node follow their leaders again",
    },
}

RULE_FIELDS: dict[str, dict[str, str]] = {
    "match": {
        "api": "name of the API, such as Produce",
        "client_id": "client id",
        "group": "group id that the request names",
        "topic": "topic that the request names",
        "transactional_id": "transactional id that the request names",
        "node": "id of the node that receives the request",
    },
    "trigger": {
        "after": "skip this number of requests first",
        "every": "fire for every n-th request",
        "times": "fire for at most this number of requests",
        "probability": "fire with this probability, above 0 and up to 1",
        "nth": "fire for the n-th request only; not with other fields of `trigger`",
    },
    "action": {
        "error": "refuse with this error of Kafka, such as NOT_ENOUGH_REPLICAS; not with `disconnect`",
        "delay_ms": f"delay the request by the broker's clock, up to {MAX_DELAY_MS} ms",
        "disconnect": 'close the connection: `"before"` or `true` before the request is handled, `"after"` after it',
    },
}

_FAULTS = """\
The body is `{"match": {…}, "trigger": {…}, "action": {…}}`. Only `action` is required, with at
least one field. The fault selects requests to which all fields of `match` apply. `trigger` defines
for which of these it fires; without it, for each."""

_ERRORS = """\
An error is `{"error": "…"}` with one of these HTTP statuses: 400 invalid input, 403 a request from
a web page or for another host name, 401 without the token, 404 unknown path,
fault or node, 405 unknown method, 408 the request took more than 5 seconds to arrive, 413 a body of
more than 64 KiB, 415 not JSON, 500 an error in the broker (see its log), 503 too many
connections."""


def control_api_page() -> str:
    """Return the page of the control API."""
    return page(
        "Control API",
        _INTRODUCTION,
        "## Routes",
        table(
            ("Request", "Purpose", "Body or parameters", "Response"),
            [(code(f"{method} {path}"), *ROUTES[method, path]) for method, path in served_routes()],
        ),
        "## Clock commands",
        table(
            ("Body", "Effect"),
            [
                (code(_CLOCK_COMMANDS[name][0]), _CLOCK_COMMANDS[name][1])
                for name in http._CLOCK_COMMANDS
            ],
        ),
        "## Changes of nodes",
        table(
            ("Body", "Effect"),
            [
                (code(f'{{"{field}": "{value}"}}'), effect)
                for field in http.NODE_COMMANDS
                for value, effect in NODE_FIELDS[field].items()
            ]
            + [
                (
                    code('{"state": "stopped", "controlled": true}'),
                    "let other nodes lead the partitions of the node, then stop it",
                )
            ],
        ),
        "## Fault rules",
        _FAULTS,
        table(
            ("Part", "Field", "Meaning"),
            [
                (code(object_name), code(name), meaning)
                for object_name, fields in RULE_FIELDS.items()
                for name, meaning in fields.items()
            ],
        ),
        "## Shapes of responses",
        *_shapes(),
        "## Errors",
        _ERRORS,
    )


def served_routes() -> list[tuple[str, str]]:
    """Return method and path of each route that the application serves."""
    anything = cast("Any", None)  # a broker is needed for requests only
    routes = cast("Any", http.ControlApp(anything, anything, None).app.routes)
    return [
        (method, re.sub(r"\{.+\}", "ID", route.path))
        for route in routes
        for method in sorted(route.methods - {"HEAD"}, key=("GET", "POST", "DELETE").index)
    ]


def _shapes() -> list[str]:
    """Return the typed dictionaries of the module, each as a table."""
    tree = ast.parse((PACKAGE / "control" / "http.py").read_text(encoding="utf-8"))
    parts = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(e) == "TypedDict" for e in node.bases
        ):
            meanings = attribute_docstrings(getattr(http, node.name))
            rows = [
                (name, code(ast.unparse(field.annotation)), meanings[name.strip("`")])
                for field in node.body
                if isinstance(field, ast.AnnAssign)
                for name in (code(ast.unparse(field.target)),)
            ]
            parts += [
                f"### {node.name}",
                ast.get_docstring(node) or "",
                table(("Key", "Type", "Meaning"), rows),
            ]
    return parts
