"""The page of the control API: routes, bodies and responses."""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kafkalite.control import client_metrics_json, http, identity_routes
from kafkalite.control.commands import DEFAULT_EXPLAIN_ENTRIES, MAX_EXPLAIN_ENTRIES
from kafkalite.gateway.fault_rules import MAX_DELAY_MS
from kafkalite.identity.provider import WRONG_AUDIENCE, WRONG_ISSUER
from tests.architecture.source import PACKAGE
from tests.reference.markdown import code, page, table
from tests.reference.record_tags import attribute_docstrings

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    ("GET", "/v1/client-metrics"): ControlRoute(
        "Return the metrics that clients have pushed. The HTTP status is 400 without the setting "
        "`kafkalite.client.telemetry`.",
        "parameter `client_id`; without it, all clients",
        "[ClientsMetricsJson](#clientsmetricsjson)",
    ),
    ("GET", "/v1/client-metrics/prometheus"): ControlRoute(
        "Return the same metrics for Prometheus, with labels that identify the client.",
        "parameter `client_id`; without it, all clients",
        "Prometheus's text format",
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
    ("GET", "/v1/identity"): ControlRoute(
        "Return the identity provider of `--oidc`.", response="[IdentityJson](#identityjson)"
    ),
    ("POST", "/v1/identity"): ControlRoute(
        "Change the audience or the lifetime of tokens; return the provider.",
        '`{"audience"}`, `{"token_lifetime": "5m"}` or `{"token_lifetime_ms"}`, or an audience and a lifetime',
        "[IdentityJson](#identityjson)",
    ),
    ("POST", "/v1/identity/clients"): ControlRoute(
        "Add or replace a client. The HTTP status is 201.",
        "[a client](#clients-of-the-identity-provider)",
        "[ClientJson](#clientjson)",
    ),
    ("DELETE", "/v1/identity/clients/ID"): ControlRoute(
        "Remove a client, and return it. The HTTP status is 404 for an unknown id.",
        response="[ClientJson](#clientjson)",
    ),
    ("POST", "/v1/identity/keys"): ControlRoute(
        "Make a key that signs from now on. The HTTP status is 201.",
        '`{}` or `{"algorithm": "ES256"}`; the default is `RS256`',
        "[KeyJson](#keyjson)",
    ),
    ("DELETE", "/v1/identity/keys/ID"): ControlRoute(
        "Publish a key no longer, and return it. The HTTP status is 404 for an unknown id.",
        response="[KeyJson](#keyjson)",
    ),
    ("POST", "/v1/identity/failures"): ControlRoute(
        "Let requests to the provider fail. The HTTP status is 201.",
        "[a failure](#failures-of-the-identity-provider)",
        "[FailureJson](#failurejson)",
    ),
    ("DELETE", "/v1/identity/failures"): ControlRoute(
        "Remove all failures; return them with their final counts.",
        response="[FailuresJson](#failuresjson)",
    ),
    ("DELETE", "/v1/identity/failures/ID"): ControlRoute(
        "Remove a failure; return it with its final count. The HTTP status is 404 for an unknown id.",
        response="[FailureJson](#failurejson)",
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
        "partition": "index of a partition that the request names",
        "transactional_id": "transactional id that the request names",
        "node": "id of the node that receives the request",
        "listener": "name of the listener that receives the request",
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

CLIENT_FIELDS: dict[str, str] = {
    "id": "id of the client, without colon",
    "secret": "secret of the client",
    "public_key": "key that verifies its assertions: PEM text, or a JSON web key; RSA of 2048 bits or "
    "more, or P-256, P-384, P-521",
    "scopes": "list of the scopes that it may request; without it, all",
    "subjects": "list of principals that its assertions may name, in addition to its id",
    "audience": "audience of its tokens, in place of that of the provider",
    "token_lifetime_ms": "lifetime of its tokens, in place of that of the provider",
}

FAILURES: dict[str, str] = {
    "expired": "tokens have expired an hour ago",
    "wrong_audience": f"tokens have the audience `{WRONG_AUDIENCE}`",
    "wrong_issuer": f"tokens have the issuer `{WRONG_ISSUER}`",
    "wrong_key": "tokens are signed by a key that is not published, and name the current key",
    "http_500": "responses have the status 500, and no body",
    "malformed": "responses have the status 200, but are not JSON",
    "slow": "responses are delayed by `delay_ms` of the broker's clock",
}

_CLIENTS = """\
A client has an `id`, and a `secret` or a `public_key`. The other fields are optional."""

_IDENTITY_FAILURES = """\
The body is `{"failure": "expired"}`. Optional fields are `"endpoint"` (`"token"`, or `"jwks"` for
the last three), `"client"` (the failure affects only the requests of this client) and `"times"`
(the number of requests that the failure affects). `"slow"` needs `"delay_ms"`."""

_FAULTS = """\
The body is `{"match": {…}, "trigger": {…}, "action": {…}}`. Only `action` is required, with at
least one field. The fault selects requests to which all fields of `match` apply. `trigger` defines
for which of these it fires; without it, for each."""

_ERRORS = """\
An error is `{"error": "…"}` with one of these HTTP statuses: 400 invalid input, 403 a request from
a web page or for another host name, 401 without the token, 404 unknown path,
fault, node, client or key, 405 unknown method, 408 the request took more than 5 seconds to arrive, 413 a body of
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
        "## Clients of the identity provider",
        _CLIENTS,
        table(("Field", "Meaning"), [(code(name), text) for name, text in CLIENT_FIELDS.items()]),
        "## Failures of the identity provider",
        _IDENTITY_FAILURES,
        table(("Failure", "Effect"), [(code(name), text) for name, text in FAILURES.items()]),
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
    """Return the typed dictionaries of the modules with routes, each as a table."""
    parts = []
    for module in (http, client_metrics_json, identity_routes):
        name = f"{module.__name__.rpartition('.')[2]}.py"
        tree = ast.parse((PACKAGE / "control" / name).read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(e) == "TypedDict" for e in node.bases
            ):
                parts += _shape(node, attribute_docstrings(getattr(module, node.name)))
    return parts


def _shape(node: ast.ClassDef, meanings: Mapping[str, str]) -> list[str]:
    """Return the title, the description and the table of a typed dictionary."""
    rows = [
        (name, code(ast.unparse(field.annotation)), meanings[name.strip("`")])
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for name in (code(ast.unparse(field.target)),)
    ]
    return [
        f"### {node.name}",
        ast.get_docstring(node) or "",
        table(("Key", "Type", "Meaning"), rows),
    ]
