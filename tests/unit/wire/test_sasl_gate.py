"""SaslGate: the states of a connection, the fate of failing clients, and the end of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.ports.waiting import chain
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.sasl.scram_credentials import SCRAM_MECHANISMS, ScramMechanism
from tests.cluster.sasl import DELAY_MS, SaslCluster, parsed
from tests.unit.frames import framed, request_frame

if TYPE_CHECKING:
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
CLUSTER = MetadataRequest(topics=[])
TOKEN = b"\0alice\0secret"


@pytest.fixture
def wire() -> SaslCluster:
    return SaslCluster()


def test_a_client_authenticates_after_it_asked_for_versions(wire: SaslCluster) -> None:
    client = wire.connect()
    assert client.request(VERSIONS, 3).error_code == ErrorCode.NONE
    response = client.handshake("PLAIN")
    assert response.error_code == ErrorCode.NONE
    assert response.mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
    response = client.authenticate(TOKEN)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    assert (response.auth_bytes, response.session_lifetime_ms) == (b"", 0)
    assert client.context.principal == "User:alice"
    assert not client.is_gated
    assert client.request(VERSIONS, 3).error_code == ErrorCode.NONE


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_client_authenticates_by_scram(wire: SaslCluster, mechanism: ScramMechanism) -> None:
    client = wire.connect()
    response = client.log_in_by_scram(mechanism)
    assert response.error_code == ErrorCode.NONE
    assert bytes(response.auth_bytes).startswith(b"v=")
    assert client.context.principal == "User:alice"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_requests_may_follow_the_last_token_at_once(wire: SaslCluster, version: int) -> None:
    client = wire.connect()
    client.handshake("PLAIN")
    requests = request_frame(SaslAuthenticateRequest(auth_bytes=TOKEN), version) + request_frame(
        VERSIONS, 3, correlation_id=7
    )
    answers = client.send(requests)
    length = 4 + int.from_bytes(answers[:4])
    authenticated = parsed(answers[:length], SaslAuthenticateRequest(), version)
    assert authenticated.error_code == ErrorCode.NONE
    assert parsed(answers[length:], VERSIONS, 3).error_code == ErrorCode.NONE
    assert client.violation is None


def test_bare_tokens_follow_the_first_version_of_the_handshake(wire: SaslCluster) -> None:
    client = wire.connect()
    assert client.handshake("PLAIN", 0).error_code == ErrorCode.NONE
    assert client.send_token(TOKEN) == framed(b"")
    assert client.context.principal == "User:alice"
    assert not client.is_gated
    assert client.request(VERSIONS, 3).error_code == ErrorCode.NONE


def test_a_refused_bare_token_closes_the_connection_without_an_answer(wire: SaslCluster) -> None:
    client = wire.connect()
    client.handshake("PLAIN", 0)
    assert client.send_token(b"\0alice\0wrong") == b""
    assert client.fail_later() == b""
    assert client.violation is not None
    assert "Invalid username or password" in client.violation
    client = wire.connect()
    client.handshake("SCRAM-SHA-256", 0)
    assert client.send_token(b"n,,") == b""
    assert client.violation is not None


def test_a_wrong_password_is_answered_after_a_delay(wire: SaslCluster) -> None:
    client = wire.connect()
    client.handshake("PLAIN")
    assert client.authenticate(b"\0alice\0mistyped") is None
    response = parsed(client.fail_later(), SaslAuthenticateRequest(), 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert response.auth_bytes == b""
    assert client.violation is not None
    assert "wrong password of user 'alice'" in client.violation
    assert "mistyped" not in client.violation
    assert client.context.principal == "User:ANONYMOUS"


@pytest.mark.parametrize("name", ["alice", "bob"])
@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_an_unknown_user_is_answered_as_one_with_a_wrong_password(
    wire: SaslCluster, mechanism: ScramMechanism, name: str
) -> None:
    client = wire.connect()
    assert client.log_in_by_scram(mechanism, name, "wrong") is None
    response = parsed(client.fail_later(), SaslAuthenticateRequest(), 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism.name}"
    )


def test_the_delay_is_configured() -> None:
    wire = SaslCluster({"connection.failed.authentication.delay.ms": "0"})
    client = wire.connect()
    assert client.log_in("wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.violation is not None


def test_a_client_that_disconnects_during_the_delay_is_forgotten(wire: SaslCluster) -> None:
    client = wire.connect()
    client.log_in("wrong")
    client.session.close()
    wire.clock.advance(DELAY_MS)
    assert client.answers() == b""


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "plain", ""])
def test_another_mechanism_is_answered_with_the_enabled_ones(
    wire: SaslCluster, mechanism: str
) -> None:
    client = wire.connect()
    assert client.handshake(mechanism) is None
    response = parsed(client.fail_later(), SaslHandshakeRequest(), 1)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
    assert client.violation is not None


@pytest.mark.parametrize("asks_for_versions", [False, True])
@pytest.mark.parametrize("request_class", [MetadataRequest, SaslAuthenticateRequest])
def test_other_requests_before_the_handshake_are_not_answered(
    wire: SaslCluster,
    request_class: type[MetadataRequest | SaslAuthenticateRequest],
    asks_for_versions: bool,  # noqa: FBT001 - a parameter
) -> None:
    client = wire.connect()
    if asks_for_versions:
        client.request(VERSIONS, 3)
    assert client.request(request_class(), 2) is None
    assert client.fail_later() == b""
    assert client.violation is not None
    assert "during SASL handshake" in client.violation


@pytest.mark.parametrize("version", [1, 9, 13])
def test_other_requests_during_the_exchange_are_answered_as_illegal(
    wire: SaslCluster, version: int
) -> None:
    client = wire.connect()
    client.handshake("PLAIN")
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    assert client.request(request, version) is None
    response = parsed(client.fail_later(), request, version)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.ILLEGAL_SASL_STATE]
    assert client.violation is not None


def test_a_second_handshake_during_the_exchange_is_illegal(wire: SaslCluster) -> None:
    client = wire.connect()
    client.handshake("PLAIN")
    assert client.handshake("PLAIN") is None
    response = parsed(client.fail_later(), SaslHandshakeRequest(), 1)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


def test_versions_may_be_requested_again_after_an_error_only(wire: SaslCluster) -> None:
    client = wire.connect()
    invalid = ApiVersionsRequest(client_software_name="?", client_software_version="1")
    assert client.request(invalid, 3).error_code == ErrorCode.INVALID_REQUEST
    unknown = client.send(framed(b"\0\x12\0\x63" + b"\0\0\0\x01" + b"\xff\xff" + bytes(30)))
    assert unknown[8:10] == bytes([0, ErrorCode.UNSUPPORTED_VERSION])
    assert client.violation is None
    client = wire.connect()
    assert client.request(VERSIONS, 0).error_code == ErrorCode.NONE
    assert client.request(VERSIONS, 0) is None
    assert client.violation is not None


def test_an_unknown_version_of_the_handshake_closes_the_connection(wire: SaslCluster) -> None:
    client = wire.connect()
    frame = bytearray(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1))
    frame[7] = 9
    assert client.send(bytes(frame)) == b""
    assert client.violation == "SaslHandshake v9 is not served"


@pytest.mark.parametrize(
    "content", [b"", b"\x60\x82\x01\x02 a token of Kerberos", b"\x7f\xff\0\0" + bytes(30)]
)
def test_bytes_that_are_no_request_close_the_connection(wire: SaslCluster, content: bytes) -> None:
    client = wire.connect()
    assert client.send(framed(content)) == b""
    assert client.fail_later() == b""
    assert client.violation is not None
    assert "tokens of GSSAPI are not supported" in client.violation


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        ((-1).to_bytes(4, signed=True), "negative frame length"),
        (b"\0\x08\0\x01", "frame length 524289 is above sasl.server.max.receive.size=524288"),
        (b"\x16\x03\x01\x02", "the client seems to speak TLS"),
        (b"GET ", "the client seems to speak HTTP"),
    ],
)
def test_a_frame_that_is_too_long_closes_the_connection(
    wire: SaslCluster, length: bytes, reason: str
) -> None:
    client = wire.connect()
    assert client.send(length) == b""
    assert client.fail_later() == b""
    assert client.violation is not None
    assert reason in client.violation


def test_the_size_of_tokens_is_limited_by_the_configuration() -> None:
    wire = SaslCluster({"sasl.server.max.receive.size": "100"})
    client = wire.connect()
    client.handshake("PLAIN")
    assert client.authenticate(b"\0alice\0" + b"s" * 100) is None
    assert client.fail_later() == b""
    assert client.violation is not None
    client = wire.connect()
    client.log_in()
    assert client.send(request_frame(CLUSTER, 9) + bytes([0, 0, 1, 0])) != b""
    assert client.violation is None


def test_requests_of_authentication_are_illegal_afterwards(wire: SaslCluster) -> None:
    client = wire.connect()
    client.log_in()
    for version in (0, 1):
        response = client.handshake("PLAIN", version)
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in (0, 1, 2):
        response = client.authenticate(TOKEN, version)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert response.error_message == (
            "SaslAuthenticate request received after successful authentication"
        )
    assert client.violation is None
    assert client.context.principal == "User:alice"


SESSION_MS = 5000
REAUTH = {"connections.max.reauth.ms": str(SESSION_MS)}


def test_a_session_ends_with_the_first_request_after_its_lifetime() -> None:
    wire = SaslCluster(REAUTH)
    client = wire.connect()
    assert client.log_in(version=1).session_lifetime_ms == SESSION_MS
    wire.clock.advance(SESSION_MS)
    assert client.request(VERSIONS, 3).error_code == ErrorCode.NONE
    wire.clock.advance(1)
    assert client.violation is None
    assert client.request(VERSIONS, 3) is None
    assert client.violation is not None
    assert "the session has expired" in client.violation


def test_a_session_continues_after_another_authentication() -> None:
    wire = SaslCluster(REAUTH)
    client = wire.connect()
    client.log_in()
    for _ in range(3):
        wire.clock.advance(SESSION_MS - 1)
        assert client.request(VERSIONS, 3).error_code == ErrorCode.NONE
        assert client.log_in().session_lifetime_ms == SESSION_MS
    assert client.violation is None
    assert client.context.principal == "User:alice"


def test_an_expired_session_can_be_renewed() -> None:
    wire = SaslCluster(REAUTH)
    client = wire.connect()
    client.log_in()
    wire.clock.advance(SESSION_MS + 1)
    assert client.log_in().error_code == ErrorCode.NONE
    assert client.request(VERSIONS, 3).error_code == ErrorCode.NONE


def test_the_second_authentication_may_arrive_in_one_piece() -> None:
    wire = SaslCluster(REAUTH)
    client = wire.connect()
    client.log_in()
    answers = client.send(
        request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        + request_frame(SaslAuthenticateRequest(auth_bytes=TOKEN), 2)
        + request_frame(VERSIONS, 3)
    )
    assert client.violation is None
    lengths = []
    while answers:
        lengths.append(int.from_bytes(answers[:4]))
        answers = answers[4 + lengths[-1] :]
    assert len(lengths) == 3


def test_another_authentication_within_a_second_is_illegal() -> None:
    wire = SaslCluster(REAUTH)
    client = wire.connect()
    client.log_in()
    client.log_in()
    wire.clock.advance(999)
    assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    wire.clock.advance(1)
    assert client.handshake("PLAIN").error_code == ErrorCode.NONE


def test_requests_between_handshake_and_token_are_illegal() -> None:
    wire = SaslCluster(REAUTH)
    client = wire.connect()
    client.log_in()
    client.handshake("PLAIN")
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    client.request(request, 9)
    response = parsed(client.fail_later(), request, 9)
    assert response.topics[0].error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_user_and_mechanism_cannot_change() -> None:
    wire = SaslCluster(REAUTH, users={"alice": "secret", "bob": "secret"})
    client = wire.connect()
    client.log_in()
    assert client.log_in(name="bob") is None
    response = parsed(client.fail_later(), SaslAuthenticateRequest(), 2)
    assert response.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    client = wire.connect()
    client.log_in()
    assert client.handshake("SCRAM-SHA-256").error_code == ErrorCode.NONE
    assert client.authenticate(b"n,,n=alice,r=x") is None
    assert client.fail_later() == b""
    assert client.violation is not None


class Delay:
    """A step that delays each answer, as a fault can."""

    def __init__(self, wire: SaslCluster) -> None:
        self.wire = wire

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        del api, version
        node = self.wire.node

        def delayed(call: Call, request: Any) -> Any:  # noqa: ANN401 - of any API
            def serve(_: None) -> Any:  # noqa: ANN401 - as above
                return handler(call, request)

            return chain(node.delay(50), serve)

        return delayed


def test_a_client_that_fails_after_a_delayed_answer_is_delayed_too(wire: SaslCluster) -> None:
    client = wire.connect()
    client.handshake("PLAIN")
    wire.gateway.install(Delay(wire))
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    assert client.send(request_frame(request, 2) + request_frame(CLUSTER, 12)) == b""
    wire.clock.advance(50)
    response = parsed(client.fail_later(), request, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.violation is not None


def test_a_delayed_failure_without_a_further_delay_is_answered_at_once() -> None:
    wire = SaslCluster({"connection.failed.authentication.delay.ms": "0"})
    client = wire.connect()
    client.handshake("PLAIN")
    wire.gateway.install(Delay(wire))
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    assert client.request(request, 2) is None
    wire.clock.advance(50)
    response = parsed(client.answers(), request, 2)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.violation is not None


def test_a_delayed_answer_of_a_step_keeps_the_order(wire: SaslCluster) -> None:
    """The client is authenticated when it is answered."""
    client = wire.connect()
    client.handshake("PLAIN")
    wire.gateway.install(Delay(wire))
    assert client.authenticate(TOKEN) is None
    assert client.context.principal == "User:ANONYMOUS"
    wire.clock.advance(50)
    answer = client.answers()
    assert parsed(answer, SaslAuthenticateRequest(), 2).error_code == ErrorCode.NONE
    assert client.context.principal == "User:alice"
    assert not client.is_gated
