"""ControlClient: a client of the control endpoint of a broker in another process."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import TYPE_CHECKING, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from kafkalite.control.endpoint import failure_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.request import BaseHandler

    from kafkalite.control.client_metrics_json import ClientsMetricsJson
    from kafkalite.control.endpoint import Endpoint
    from kafkalite.control.http import (
        ClockJson,
        ExplanationJson,
        FaultJson,
        FaultsJson,
        LeaderJson,
        NodeJson,
        NodesJson,
    )
    from kafkalite.control.identity_routes import (
        ClientJson,
        FailureJson,
        FailuresJson,
        IdentityJson,
        KeyJson,
    )

_TIMEOUT_S = 60.0
"""The time limit of a request. It is long, because advancing the clock far takes time."""


class ControlError(Exception):
    """The broker refused a command or did not answer; the text is one line."""


class ControlClient:
    """The commands of a broker over HTTP; each raises ControlError if it fails."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url
        # A proxy cannot reach a broker on this machine.
        handlers: list[BaseHandler] = [ProxyHandler({})]
        if endpoint.tls is not None:
            handlers.append(HTTPSHandler(context=endpoint.tls))
        self._opener = build_opener(*handlers)

    def clock(self) -> ClockJson:
        """Return the time, the mode and the rate of the clock."""
        return cast("ClockJson", self._request("/v1/clock"))

    def change_clock(self, command: Mapping[str, str | float]) -> ClockJson:
        """Send a body of POST /v1/clock and return the clock after it."""
        return cast("ClockJson", self._request("/v1/clock", json.dumps(command).encode()))

    def explain(
        self,
        group: str | None,
        limit: int | None,
        transactional_id: str | None = None,
        topic: str | None = None,
        client: str | None = None,
    ) -> ExplanationJson:
        """Return the history of a group or another subject, or of all subjects."""
        parameters = {
            "group": group,
            "transactional_id": transactional_id,
            "topic": topic,
            "client": client,
            "limit": limit,
        }
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        return cast("ExplanationJson", self._request(f"/v1/explain?{query}"))

    def client_metrics(self, client_id: str | None = None) -> ClientsMetricsJson:
        """Return the metrics of all clients, or of those with this client id."""
        path = f"/v1/client-metrics{_client_query(client_id)}"
        return cast("ClientsMetricsJson", self._request(path))

    def prometheus_text(self, client_id: str | None = None) -> str:
        """Return the same metrics in Prometheus's text format."""
        path = f"/v1/client-metrics/prometheus{_client_query(client_id)}"
        return self._read(path)

    def faults(self) -> FaultsJson:
        """Return all faults."""
        return cast("FaultsJson", self._request("/v1/faults"))

    def add_fault(self, fault: Mapping[str, object]) -> FaultJson:
        """Add the fault that a body of POST /v1/faults describes, and return it with its id."""
        return cast("FaultJson", self._request("/v1/faults", json.dumps(fault).encode()))

    def remove_fault(self, fault_id: str) -> FaultJson:
        """Remove a fault, and return it with its final counts."""
        path = f"/v1/faults/{quote(fault_id, safe='')}"
        return cast("FaultJson", self._request(path, method="DELETE"))

    def clear_faults(self) -> FaultsJson:
        """Remove all faults, and return them with their final counts."""
        return cast("FaultsJson", self._request("/v1/faults", method="DELETE"))

    def nodes(self) -> NodesJson:
        """Return all nodes with their states."""
        return cast("NodesJson", self._request("/v1/nodes"))

    def add_node(self, command: Mapping[str, object]) -> NodeJson:
        """Add the node that a body of POST /v1/nodes describes, and return it with its id."""
        return cast("NodeJson", self._request("/v1/nodes", json.dumps(command).encode()))

    def remove_node(self, node_id: int) -> NodeJson:
        """Remove a node, and return it."""
        return cast("NodeJson", self._request(f"/v1/nodes/{node_id}", method="DELETE"))

    def change_node(self, node_id: int, command: Mapping[str, str | bool]) -> NodeJson:
        """Send a body of POST /v1/nodes/ID and return the node after it."""
        path = f"/v1/nodes/{node_id}"
        return cast("NodeJson", self._request(path, json.dumps(command).encode()))

    def move_leader(self, command: Mapping[str, str | int]) -> LeaderJson:
        """Send a body of POST /v1/leaders and return the partition after it."""
        return cast("LeaderJson", self._request("/v1/leaders", json.dumps(command).encode()))

    def identity(self) -> IdentityJson:
        """Return the identity provider."""
        return cast("IdentityJson", self._request("/v1/identity"))

    def change_tokens(self, command: Mapping[str, str | int]) -> IdentityJson:
        """Send a body of POST /v1/identity and return the provider after it."""
        return cast("IdentityJson", self._request("/v1/identity", json.dumps(command).encode()))

    def put_oauth_client(self, fields: Mapping[str, object]) -> ClientJson:
        """Add or replace a client of the identity provider, and return it."""
        body = json.dumps(fields).encode()
        return cast("ClientJson", self._request("/v1/identity/clients", body))

    def remove_oauth_client(self, client_id: str) -> ClientJson:
        """Remove a client of the identity provider, and return it."""
        path = f"/v1/identity/clients/{quote(client_id, safe='')}"
        return cast("ClientJson", self._request(path, method="DELETE"))

    def add_signing_key(self, fields: Mapping[str, str]) -> KeyJson:
        """Let the identity provider sign with a new key, and return it."""
        return cast("KeyJson", self._request("/v1/identity/keys", json.dumps(fields).encode()))

    def retire_signing_key(self, key_id: str) -> KeyJson:
        """Let the identity provider publish a key no longer, and return it."""
        path = f"/v1/identity/keys/{quote(key_id, safe='')}"
        return cast("KeyJson", self._request(path, method="DELETE"))

    def add_identity_failure(self, fields: Mapping[str, object]) -> FailureJson:
        """Add a failure of the identity provider, and return it with its id."""
        body = json.dumps(fields).encode()
        return cast("FailureJson", self._request("/v1/identity/failures", body))

    def remove_identity_failure(self, failure_id: str) -> FailureJson:
        """Remove a failure of the identity provider, and return it with its final count."""
        path = f"/v1/identity/failures/{quote(failure_id, safe='')}"
        return cast("FailureJson", self._request(path, method="DELETE"))

    def clear_identity_failures(self) -> FailuresJson:
        """Remove all failures of the identity provider, and return them."""
        return cast("FailuresJson", self._request("/v1/identity/failures", method="DELETE"))

    def _request(self, path: str, body: bytes | None = None, method: str | None = None) -> object:
        text = self._read(path, body, method)
        try:
            return json.loads(text)
        except ValueError as error:
            raise ControlError(failure_text(self._url, error)) from error

    def _read(self, path: str, body: bytes | None = None, method: str | None = None) -> str:
        headers = {"Content-Type": "application/json"}
        request = Request(self._url + path, body, headers, method=method)  # noqa: S310 - http or https
        for name, value in self._endpoint.headers.items():
            # Another server, to which this one redirects, does not get the token.
            request.add_unredirected_header(name, value)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                content: bytes = response.read()
                return content.decode()
        except HTTPError as http_error:
            with http_error:  # it holds the connection
                raise ControlError(_error_text(http_error)) from http_error
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise ControlError(failure_text(self._url, reason)) from error


def _client_query(client_id: str | None) -> str:
    return "" if client_id is None else f"?{urlencode({'client_id': client_id})}"


def _error_text(http_error: HTTPError) -> str:
    try:
        error = json.load(http_error)["error"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return (
            f"{http_error.url} answers {http_error.code} {http_error.reason}: this is not kafkalite"
        )
    return str(error)
