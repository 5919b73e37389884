"""The OpenAPI document: valid, and true of what the endpoint accepts and returns."""

from __future__ import annotations

import io
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import jsonschema
import openapi_spec_validator
import pytest

from kafkalite.control.command_table import rows
from kafkalite.control.http import ControlApp
from kafkalite.control.openapi import openapi_document
from kafkalite.identity.provider import IdentityProvider
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask
from tests.unit.control.group_members import Members
from tests.unit.server.recorders import use_fake_recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.applications import Starlette

HEADERS = {"content-type": "application/json"}
DOCUMENT: dict[str, Any] = json.loads(json.dumps(openapi_document()))
PATHS = {
    "fault_id": "f1", "node_id": "4", "client_id": "a", "key_id": "k", "failure_id": "i1",
    "topic": "orders", "group": "shop", "link_id": "l1",
    "snapshot_id": "s1", "cluster_id": "c1", "name": "rebalance",
}  # fmt: skip
"""An id for each field in a path; the examples add all but the key, whose id is random."""


def check(schema: dict[str, Any], value: object) -> None:
    """Raise ValidationError if a value does not have a schema of the document."""
    complete = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(complete).validate(value)


@pytest.fixture
async def app() -> AsyncIterator[Starlette]:
    clock = AdjustableClock(rate=0, now_ms=0)
    settings = Settings(
        listen=("SASL_PLAINTEXT://127.0.0.1:0",),
        brokers=2,
        is_in_memory=True,
        topics={"t": 1},
        config={
            "default.replication.factor": "2",
            "kafkalite.client.telemetry": "true",
            "offsets.topic.num.partitions": "1",
            "offsets.retention.minutes": "2147483647",  # an example advances the clock
        },
    )
    provider = IdentityProvider("http://127.0.0.1:1", clock, SeededEntropy())
    broker = Broker(settings, clock=clock, identity=provider)
    await broker.start()
    await Members(broker).commit("shop", 1, topic="t")
    yield ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
    await broker.stop(grace_s=0)


def test_the_document_is_valid() -> None:
    openapi_spec_validator.validate(DOCUMENT)


def test_the_document_has_every_command() -> None:
    operations = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert operations == {row.kind.__name__: (row.method, row.path) for row in rows()}


async def test_examples_are_accepted_and_answers_have_the_described_schema(
    app: Starlette, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_recorder(monkeypatch)
    order = ("POST", "GET", "DELETE")
    refused = set()
    # A restore undoes what others did, so it follows the creation of the snapshot.
    names = {
        "RestoreSnapshot": "CreateSnapshot, then restore",
        "LoadSnapshot": "SaveSnapshot, then load",
    }
    for row in sorted(
        rows(),
        key=lambda row: (
            order.index(row.method),
            names.get(row.kind.__name__, row.kind.__name__),
        ),
    ):
        operation = DOCUMENT["paths"][row.path][row.method.lower()]
        body = b""
        if row.has_body:
            content = operation["requestBody"]["content"]["application/json"]
            check(content["schema"], content["example"])
            example = content["example"]
            if "path" in example:
                example = {**example, "path": f"{tmp_path / 's1.zip'}"}
            body = json.dumps(example).encode()
        if row.answer is str or row.is_stream or row.is_file:
            continue
        path = row.path.format_map(PATHS)
        answer = await ask(app, path, method=row.method, headers=HEADERS, body=body)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            refused.add(row.kind.__name__)
        responses = operation["responses"]
        response = responses.get(f"{answer.status}", responses["default"])
        check(response["content"]["application/json"]["schema"], answer.body)
    assert refused == {
        "ExpectCommit",  # there is no such topic
        "ExpectRequests",  # there is no such request
        "RetireSigningKey",
        "RemoveIdentityFailure",  # the failures are removed before
        "RemoveFault",  # and the faults
        "ExpelMember",  # there are no members and no transactional ids
        "RebalanceGroup",
        "FenceProducer",
        "Bisect",  # there is no condition
        "ForkCluster",  # only a served broker can start others
        "StopCluster",
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/faults", {"action": {"delay_ms": 0}}),
        ("/v1/faults", {"action": {"error": "NONE"}}),
        ("/v1/faults", {"action": {"disconnect": "now"}}),
        ("/v1/faults", {"match": {}}),
        ("/v1/faults", {"action": {"delay_ms": 1}, "trigger": {"probability": 0}}),
        ("/v1/nodes/{node_id}", {"state": "dead"}),
        ("/v1/nodes", {"config": {"broker.rack": 1}}),
        ("/v1/leaders", {"topic": "t", "partition": 0}),
        ("/v1/clock", {"speed": 3}),
        ("/v1/identity/failures", {"failure": "late"}),
    ],
)
async def test_what_the_endpoint_refuses_does_not_have_the_described_schema(
    app: Starlette, path: str, body: object
) -> None:
    operation = DOCUMENT["paths"][path]["post"]
    with pytest.raises(jsonschema.ValidationError):
        check(operation["requestBody"]["content"]["application/json"]["schema"], body)
    raw = json.dumps(body).encode()
    answer = await ask(app, path.format_map(PATHS), method="POST", headers=HEADERS, body=raw)
    assert answer.status == HTTPStatus.BAD_REQUEST
    check(operation["responses"]["default"]["content"]["application/json"]["schema"], answer.body)
