"""Script for a copy of the project with an additional API: checks every user of the catalogue."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import kafkalite
from kafkalite.apis.api_versions import new_api_versions_api
from kafkalite.apis.table import TABLE, find_api
from kafkalite.capture.model import Direction
from kafkalite.capture.recording.redaction import SECRETS_OF_REQUESTS
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.fault_rules import parse_rule
from kafkalite.gateway.gateway import Gateway
from kafkalite.lab.proxy.address_rewriting import ADDRESS_FIELDS
from kafkalite.lab.replay.comparison.refusals import RETRIABLE_ERRORS
from kafkalite.lab.replay.comparison.refusals import error_codes as codes_of_shape
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.player.splitting import REQUEST_LAYOUTS, LeaderKind, RoutingKey
from kafkalite.protocol import codec
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.api_names import known_api_name
from kafkalite.protocol.catalogue import entities_in_request, error_codes

KEY = 9300


def main(root: Path) -> None:
    """Raise AssertionError if a part of the project does not support the API."""
    assert Path(kafkalite.__file__).is_relative_to(root), kafkalite.__file__
    module: Any = import_module("kafkalite.protocol._generated.messages.greet_group")
    topic = module.GreetGroupRequest.Topic(name="orders")
    request = module.GreetGroupRequest(group_id="g", password=b"secret", topics=[topic])
    assert ApiKey["GREET_GROUP"] == KEY
    assert known_api_name(KEY) == "GreetGroup"
    serve(request)
    refused = module.GreetGroupResponse(error_code=16)
    audit(request, refused)


def serve(request: Any) -> None:  # noqa: ANN401 - its class exists only in the copy
    """Serve the API by a broker, and list it in ApiVersions."""
    rows = new_api_versions_api(TABLE).handler.__self__._rows  # type: ignore[attr-defined]
    assert KEY in {row.api_key for row in rows}
    body: list[bytes | memoryview] = []
    codec.request_builder(KEY, 0)(request, body)
    content = KEY.to_bytes(2) + bytes(2) + (7).to_bytes(4) + b"\0\4test\0" + b"".join(body)
    frame = bytearray(len(content).to_bytes(4) + content)
    node = cast("Any", SimpleNamespace(history=SimpleNamespace(log=None)))
    context = ConnectionContext(node=node, listener="PLAINTEXT", client_host="/127.0.0.1")
    out: list[bytes | memoryview] = []
    failures: list[Exception] = []
    gateway = Gateway(find_api, lambda _, fault: failures.append(fault))
    gateway.serve_in_worker(context, frame, 4, len(frame), out)
    output = b"".join(out)
    response, position = codec.response_parser(KEY, 0)(output, 9, len(output))
    assert (position, response.error_message) == (len(output), "hello g"), failures
    assert parse_rule(
        {"match": {"api": "GreetGroup", "group": "g"}, "action": {"error": "NOT_COORDINATOR"}}
    )


def audit(request: Any, refused: Any) -> None:  # noqa: ANN401 - as above
    """Record, route, compare and proxy the API."""
    assert list(entities_in_request(KEY, Entity.TOPIC, request)) == ["orders"]
    assert list(error_codes(KEY, refused)) == [16]
    assert codes_of_shape(shape_of(KEY, 0, Direction.RESPONSE), refused) == [16]
    assert REQUEST_LAYOUTS[KEY].routing_keys(request) == [RoutingKey(LeaderKind.GROUP, "g")]
    assert KEY in RETRIABLE_ERRORS
    assert KEY in ADDRESS_FIELDS
    assert SECRETS_OF_REQUESTS[KEY](request) == len(b"secret")
    assert request.password == bytes(6)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
