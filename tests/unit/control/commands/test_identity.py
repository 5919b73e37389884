"""Commands to the identity provider: responses, refusals, and texts without secrets."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands.identity import (
    ENDPOINTS,
    FAILURE_KINDS,
    AddIdentityFailure,
    AddSigningKey,
    ChangeTokens,
    ClearIdentityFailures,
    PutClient,
    RemoveClient,
    RemoveIdentityFailure,
    RetireSigningKey,
    ShowIdentity,
)
from kafkalite.identity import signing_keys
from kafkalite.identity.errors import IdentityError
from kafkalite.identity.failures import Endpoint, FailureKind
from tests.unit.control.asgi_client import Answer, ask
from tests.unit.control.identity_service import BASIC, REQUEST, IdentityService

if TYPE_CHECKING:
    from joserfc.jwk import Key

    from kafkalite.server.broker import Broker

JSON = {"content-type": "application/json"}


@pytest.fixture
def service() -> IdentityService:
    return IdentityService()


async def post(service: IdentityService, path: str, body: object, **headers: str) -> Answer:
    return await ask(
        service.control,
        f"/v1/identity{path}",
        method="POST",
        body=json.dumps(body).encode(),
        headers={**JSON, **headers},
    )


async def delete(service: IdentityService, path: str) -> Answer:
    return await ask(service.control, f"/v1/identity{path}", method="DELETE")


async def test_the_provider_is_returned_without_secrets(service: IdentityService) -> None:
    answer = await ask(service.control, "/v1/identity")
    assert answer.body == {
        "issuer": "http://127.0.0.1:9098",
        "token_endpoint": "http://127.0.0.1:9098/token",
        "jwks_uri": "http://127.0.0.1:9098/jwks",
        "audience": "kafka",
        "token_lifetime_ms": 3_600_000,
        "clients": [
            {
                "id": "kafkalite",
                "has_secret": True,
                "has_public_key": False,
                "scopes": None,
                "subjects": [],
                "audience": None,
                "token_lifetime_ms": None,
            }
        ],
        "keys": [{"id": service.provider.keys.current.id, "algorithm": "RS256", "signs": True}],
        "failures": [],
    }


async def test_tokens_are_changed(service: IdentityService) -> None:
    assert (await post(service, "", {"token_lifetime": "5m"})).body["token_lifetime_ms"] == 300_000
    changed = await post(service, "", {"audience": "x", "token_lifetime_ms": 1000})
    assert (changed.body["audience"], changed.body["token_lifetime_ms"]) == ("x", 1000)


async def test_half_of_a_surrogate_pair_changes_nothing(service: IdentityService) -> None:
    answer = await post(service, "", {"audience": "\ud800"})
    assert (answer.status, answer.body) == (400, {"error": "the body is not JSON"})
    assert (await ask(service.control, "/v1/identity")).body["audience"] == "kafka"


async def test_clients_are_added_and_removed(service: IdentityService) -> None:
    added = await post(service, "/clients", {"id": "a/b", "secret": "s", "scopes": ["read"]})
    assert (added.status, added.body["id"], added.body["scopes"]) == (201, "a/b", ["read"])
    assert "secret" not in added.body
    assert (await delete(service, "/clients/a/b")).body["id"] == "a/b"
    unknown = await delete(service, "/clients/a/b")
    assert (unknown.status, unknown.body) == (404, {"error": "there is no client 'a/b'"})


async def test_keys_are_rotated(service: IdentityService) -> None:
    first = service.provider.keys.current.id
    added = await post(service, "/keys", {"algorithm": "ES256"})
    assert (added.status, added.body["signs"]) == (201, True)
    assert (await delete(service, f"/keys/{first}")).body["id"] == first
    only = await delete(service, f"/keys/{added.body['id']}")
    assert only.status == 400
    assert (await delete(service, "/keys/x")).status == 404
    assert (await post(service, "/keys", {})).body["algorithm"] == "RS256"


async def test_failures_are_added_and_removed(service: IdentityService) -> None:
    added = await post(service, "/failures", {"failure": "expired", "times": 1})
    assert added.status == 201
    assert added.body == {
        "id": "i1",
        "failure": "expired",
        "endpoint": "token",
        "client": None,
        "times": 1,
        "delay_ms": 0,
        "firings": 0,
    }
    assert (await delete(service, "/failures/i1")).body == added.body
    assert (await delete(service, "/failures/i1")).status == 404
    await post(service, "/failures", {"failure": "http_500"})
    cleared = await delete(service, "/failures")
    assert [each["failure"] for each in cleared.body["failures"]] == ["http_500"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {}),
        ("", []),
        ("", {"color": 1}),
        ("", {"token_lifetime": "soon"}),
        ("", {"token_lifetime": 5}),
        ("", {"token_lifetime": "5m", "token_lifetime_ms": 5}),
        ("", {"audience": 5}),
        ("/clients", []),
        ("/clients", {"id": "a"}),
        ("/keys", {"algorithm": "none"}),
        ("/keys", {"algorithm": 5}),
        ("/keys", []),
        ("/failures", []),
        ("/failures", {"failure": "late"}),
    ],
)
async def test_invalid_bodies_are_refused(
    service: IdentityService, path: str, body: object
) -> None:
    answer = await post(service, path, body)
    assert answer.status == 400
    assert answer.body.keys() == {"error"}


async def test_the_checks_of_the_control_endpoint_apply(service: IdentityService) -> None:
    assert (await post(service, "", {}, origin="http://page.test")).status == 403
    assert (await post(service, "", {}, host="page.test")).status == 403
    assert (await post(service, "", {}, **{"content-type": "text/plain"})).status == 415


async def test_a_broker_without_provider_refuses(service: IdentityService) -> None:
    broker: Broker = service.broker
    broker.identity = None
    answer = await ask(service.control, "/v1/identity")
    assert answer.status == 400
    assert answer.body["error"].endswith("start it with --oidc")


async def test_commands_return_what_they_change() -> None:
    service = IdentityService()
    first = service.provider.keys.current

    added = await PutClient("a", "s").perform(service.broker)
    assert (added.id, added.has_secret) == ("a", True)
    second = await AddSigningKey("ES256").perform(service.broker)
    assert (await AddIdentityFailure("expired").perform(service.broker)).id == "i1"
    everything = await ShowIdentity().perform(service.broker)
    assert [client.id for client in everything.clients] == ["kafkalite", "a"]
    assert [key.id for key in everything.keys] == [first.id, second.id]
    assert [failure.id for failure in everything.failures] == ["i1"]
    assert (await ChangeTokens(audience="x").perform(service.broker)).audience == "x"
    assert service.provider.audience == "x"
    assert await RemoveClient("a").perform(service.broker) == added
    assert (await RetireSigningKey(first.id).perform(service.broker)).id == first.id
    assert (await RemoveIdentityFailure("i1").perform(service.broker)).id == "i1"
    assert (await ClearIdentityFailures().perform(service.broker)).failures == ()


async def test_keys_are_made_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    service = IdentityService()
    threads = []

    def new_key(algorithm: str) -> Key:
        threads.append(threading.current_thread())
        return signing_keys_new_key(algorithm)

    signing_keys_new_key = signing_keys.new_key
    monkeypatch.setattr(signing_keys, "new_key", new_key)
    await AddSigningKey().perform(service.broker)
    await AddIdentityFailure("wrong_key").perform(service.broker)
    with pytest.raises(IdentityError):
        await AddSigningKey("none").perform(service.broker)
    assert service.provider.token(REQUEST, BASIC["authorization"]).status == 200
    assert len(threads) == 2
    assert threading.current_thread() not in threads


def test_failures_and_endpoints_are_those_of_the_provider() -> None:
    assert list(FAILURE_KINDS) == [kind.value for kind in FailureKind]
    assert list(ENDPOINTS) == [endpoint.value for endpoint in Endpoint]


def test_the_text_of_a_command_has_no_secret() -> None:
    assert "s3cr3t" not in repr(PutClient("a", "s3cr3t", "s3cr3t"))
