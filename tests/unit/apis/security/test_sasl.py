"""SaslHandshake and SaslAuthenticate on connections without SASL."""

from __future__ import annotations

import pytest

from kafkalite.apis.security.sasl import handle_sasl_handshake
from kafkalite.apis.table import find_api
from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.protocol._generated.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kafkalite.protocol._generated.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.sasl import SaslCluster

Request = SaslHandshakeRequest | SaslAuthenticateRequest


@pytest.mark.parametrize(
    ("request_class", "message"),
    [
        (SaslHandshakeRequest, None),
        (
            SaslAuthenticateRequest,
            "SaslAuthenticate request received after successful authentication",
        ),
    ],
)
def test_authentication_is_illegal_on_a_listener_without_sasl(
    request_class: type[Request], message: str | None
) -> None:
    api = find_api(request_class.API_KEY)
    assert api is not None
    context = ConnectionContext(
        node=SaslCluster().node, listener="PLAINTEXT", client_host="/127.0.0.1"
    )
    with pytest.raises(KafkaError) as refusal:
        api.handler(Call(context), request_class())
    assert refusal.value.code is ErrorCode.ILLEGAL_SASL_STATE
    assert refusal.value.message == message


def test_sasl_on_a_listener_without_sasl_is_logged() -> None:
    warnings: list[tuple[str, str, dict[str, object]]] = []

    def warn(host: str, kind: str, event: str, **fields: object) -> None:
        assert event.startswith("a client authenticates by SASL on a listener without SASL: ")
        warnings.append((host, kind, fields))

    node = SaslCluster().node
    node.warn_about_client = warn
    context = ConnectionContext(
        node=node, listener="PLAINTEXT", client_host="/127.0.0.1", client_id="shop"
    )
    with pytest.raises(KafkaError):
        handle_sasl_handshake(Call(context), SaslHandshakeRequest())
    fields = {"client": "127.0.0.1", "client_id": "shop", "listener": "PLAINTEXT"}
    assert warnings == [("127.0.0.1", "SASL on a listener without SASL", fields)]


def test_refusals_have_the_fields_of_the_api() -> None:
    code = ErrorCode.ILLEGAL_SASL_STATE
    handshake = find_api(SaslHandshakeRequest.API_KEY)
    assert handshake is not None
    assert handshake.refuse(SaslHandshakeRequest(), code, "why") == SaslHandshakeResponse(
        error_code=code
    )
    authenticate = find_api(SaslAuthenticateRequest.API_KEY)
    assert authenticate is not None
    for message in ("why", None):
        response = authenticate.refuse(SaslAuthenticateRequest(), code, message)
        assert response == SaslAuthenticateResponse(
            error_code=code, error_message=message or code.message
        )


@pytest.mark.parametrize("version", [0, 1])
def test_the_handshake_returns_the_enabled_mechanisms(version: int) -> None:
    wire = SaslCluster({"sasl.enabled.mechanisms": "PLAIN,GSSAPI,SCRAM-SHA-256"})
    response = wire.connect().handshake("PLAIN", version)
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
