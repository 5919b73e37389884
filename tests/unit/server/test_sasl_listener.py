"""SaslListener: mechanisms, passwords and rules of a listener's settings, and invalid settings."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.config.dynamic import check_dynamic_values
from kafkalite.config.sasl_classes import CALLBACK_HANDLERS, SIGNED_TOKEN_HANDLERS
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.security.sasl.scram_credentials import SCRAM_SHA_256
from kafkalite.security.sasl.users import User
from tests.cluster.sasl import SaslCluster, parsed
from tests.unit.frames import request_frame
from tests.unit.security.sasl.token_signer import NOW_S, TokenSigner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MECHANISMS = "sasl.enabled.mechanisms"
HANDLER = "sasl.server.callback.handler.class"
URL = "sasl.oauthbearer.jwks.endpoint.url"
INVALID_TOKEN = b'{"status":"invalid_token"}'
SIGNER = TokenSigner()
PLAIN_JAAS = "listener.name.outside.plain.sasl.jaas.config"
PLAIN_REAUTH = "listener.name.outside.plain.connections.max.reauth.ms"
JAAS_OF_TOKENS = "listener.name.outside.oauthbearer.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def unpadded(text: str) -> str:
    return b64encode(text.encode()).decode().rstrip("=")


def test_passwords_of_a_login_module_are_accepted() -> None:
    jaas = f'{PLAIN_MODULE} username="x" password="y" user_bob="hunter2" user_alice="other";'
    wire = SaslCluster({PLAIN_JAAS: jaas})
    assert wire.connect().log_in("hunter2", "bob").error_code == 0
    assert wire.connect().log_in("other").error_code == 0
    assert wire.connect().log_in("secret") is None
    assert wire.connect().log_in("y", "x") is None


def test_rules_do_not_show_passwords() -> None:
    assert "secret" not in repr(SaslCluster().sasl_settings.rules())


def test_a_changed_login_module_applies_to_new_connections() -> None:
    wire = SaslCluster({PLAIN_JAAS: f'{PLAIN_MODULE} user_bob="one";'})
    client = wire.connect()
    wire.config.publish({}, {}, {1: {PLAIN_JAAS: f'{PLAIN_MODULE} user_bob="two";'}})
    assert client.log_in("one", "bob").error_code == 0
    assert wire.connect().log_in("one", "bob") is None
    assert wire.connect().log_in("two", "bob").error_code == 0


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (PLAIN_JAAS, "nonsense", f"{PLAIN_JAAS}: "),
        (PLAIN_REAUTH, "abc", "Invalid value abc for configuration connections.max.reauth.ms"),
        (f"listener.name.outside.{MECHANISMS}", "GSSAPI", "only"),
    ],
)
def test_the_former_settings_remain_in_use_if_the_new_ones_are_invalid(
    key: str, value: str, reason: str
) -> None:
    wire = SaslCluster()
    wire.config.publish({}, {}, {1: {key: value}})
    for _ in range(2):
        client = wire.connect()
        assert client.is_gated
        assert client.log_in().error_code == 0
    (report,) = wire.reports
    assert reason in report
    wire.config.publish({}, {}, {1: {PLAIN_REAUTH: "3000"}})
    assert wire.connect().log_in().session_lifetime_ms == 3000
    assert len(wire.reports) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PLAIN_JAAS, "nonsense"),
        (PLAIN_REAUTH, "abc"),
        (f"listener.name.outside.{MECHANISMS}", "GSSAPI"),
        (MECHANISMS, "GSSAPI"),
    ],
)
def test_an_invalid_dynamic_change_is_refused(key: str, value: str) -> None:
    wire = SaslCluster()
    with pytest.raises(ConfigError, match="for configuration Invalid dynamic configuration"):
        check_dynamic_values({key: value}, wire.config, is_per_broker=True)
    check_dynamic_values({PLAIN_REAUTH: "5"}, wire.config, is_per_broker=True)
    check_dynamic_values({"listener.name.other.x": value}, wire.config, is_per_broker=True)


def test_mechanisms_of_the_listener_have_precedence() -> None:
    wire = SaslCluster(
        {MECHANISMS: "PLAIN", f"listener.name.outside.{MECHANISMS}": "SCRAM-SHA-256"}
    )
    assert wire.connect().handshake("SCRAM-SHA-256").mechanisms == ["SCRAM-SHA-256"]
    assert wire.connect().handshake("PLAIN") is None


def test_a_user_authenticates_by_its_mechanisms_only() -> None:
    wire = SaslCluster(
        users=[User("alice", "secret", ("PLAIN",)), User("bob", "b", ("SCRAM-SHA-256",))]
    )
    assert wire.connect().log_in().error_code == 0
    assert wire.connect().log_in_by_scram(SCRAM_SHA_256) is None
    assert wire.connect().log_in("b", "bob") is None
    assert wire.connect().log_in_by_scram(SCRAM_SHA_256, "bob", "b").error_code == 0


def test_the_lifetime_of_a_session_can_differ_by_mechanism() -> None:
    wire = SaslCluster({
        "connections.max.reauth.ms": "9000",
        PLAIN_REAUTH: "3000",
    })  # fmt: skip
    assert wire.connect().log_in().session_lifetime_ms == 3000
    assert wire.connect().log_in_by_scram(SCRAM_SHA_256).session_lifetime_ms == 9000


def test_unsecured_tokens_are_accepted_if_their_mechanism_is_enabled() -> None:
    options = 'unsecuredValidatorRequiredScope="write"'
    wire = SaslCluster({MECHANISMS: "OAUTHBEARER", JAAS_OF_TOKENS: f"{BEARER_MODULE} {options};"})
    expiry_s = wire.clock.now_ms() // 1000 + 60
    header = unpadded('{"alg":"none"}')
    for scope, is_accepted in (("write", True), ("read", False)):
        claims = f'{{"sub":"alice","exp":{expiry_s},"scope":"{scope}"}}'
        message = f"n,,\x01auth=Bearer {header}.{unpadded(claims)}.\x01\x01"
        client = wire.connect()
        client.handshake("OAUTHBEARER")
        response = client.authenticate(message.encode())
        assert response.error_code == 0
        if is_accepted:
            assert client.context.principal == "User:alice"
            assert response.session_lifetime_ms == expiry_s * 1000 - wire.clock.now_ms()
        else:
            error = b'{"status":"insufficient_scope", "scope":"[write]"}'
            assert bytes(response.auth_bytes) == error
            assert client.authenticate(b"\x01") is None
            refused = parsed(client.fail_later(), SaslAuthenticateRequest(), 2)
            assert refused.error_message == error.decode()


def signed_token_config(path: Path, **more: str) -> dict[str, str]:
    path.write_bytes(SIGNER.key_set)
    return {
        MECHANISMS: "OAUTHBEARER,PLAIN",
        f"listener.name.outside.oauthbearer.{HANDLER}": SIGNED_TOKEN_HANDLERS[0],
        f"listener.name.outside.oauthbearer.{URL}": path.as_uri(),
        **more,
    }


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_signed_tokens_are_accepted_until_they_expire(tmp_path: Path) -> None:
    wire = SaslCluster(signed_token_config(tmp_path / "keys.json"))
    client = wire.connect()
    assert client.handshake("OAUTHBEARER").error_code == 0
    response = client.authenticate(bearer(SIGNER.token()))
    assert (response.error_code, client.context.principal) == (0, "User:alice")
    assert response.session_lifetime_ms == 60_000
    assert wire.connect().log_in().error_code == 0
    wire.clock.advance(60_001)
    assert client.send(request_frame(MetadataRequest(topics=[]), 9)) == b""
    assert "the session has expired" in str(client.violation)


def test_a_client_authenticates_again_with_a_new_token(tmp_path: Path) -> None:
    wire = SaslCluster(signed_token_config(tmp_path / "keys.json"))
    client = wire.connect()
    client.handshake("OAUTHBEARER")
    client.authenticate(bearer(SIGNER.token()))
    wire.clock.advance(30_000)
    client.handshake("OAUTHBEARER")
    response = client.authenticate(bearer(SIGNER.token(exp=NOW_S + 100)))
    assert (response.error_code, response.session_lifetime_ms) == (0, 70_000)


def test_an_invalid_signed_token_gets_the_error_of_kafka(tmp_path: Path) -> None:
    wire = SaslCluster(signed_token_config(tmp_path / "keys.json"))
    header, claims = unpadded('{"alg":"none"}'), unpadded('{"sub":"alice","exp":9999999999}')
    unsecured = f"{header}.{claims}."
    for token, reason in (
        (TokenSigner("ES256", "x").token({"kid": "key-1"}), "the signature of the token"),
        (SIGNER.token(exp=NOW_S - 31, iat=0), "the token has expired"),
        (unsecured, "a section of the token is not base64url"),
    ):
        client = wire.connect()
        client.handshake("OAUTHBEARER")
        response = client.authenticate(bearer(token))
        assert (response.error_code, bytes(response.auth_bytes)) == (0, INVALID_TOKEN)
        assert client.authenticate(b"\x01") is None
        refused = parsed(client.fail_later(), SaslAuthenticateRequest(), 2)
        assert (refused.error_code, refused.error_message) == (58, INVALID_TOKEN.decode())
        violation = str(client.violation)
        assert f"OAUTHBEARER: {reason}" in violation
        assert all(each not in violation for each in token.split(".") if each)


def test_the_log_has_the_reason_if_a_client_ignores_the_error(tmp_path: Path) -> None:
    wire = SaslCluster(signed_token_config(tmp_path / "keys.json"))
    client = wire.connect()
    client.handshake("OAUTHBEARER")
    client.authenticate(bearer(SIGNER.token(aud="x")))
    client.send(request_frame(MetadataRequest(topics=[]), 9))
    refused = parsed(client.fail_later(), MetadataRequest(), 9)
    assert refused.topics == []
    assert str(client.violation).endswith(
        "Unexpected Kafka request of type METADATA during SASL authentication. "
        "Before: OAUTHBEARER: the token has an audience, but no audience is expected"
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_waits_for_the_first_keys(version: int) -> None:
    class Validator:
        waiting: Waiting[None] = Waiting()

        def first_keys(self) -> Waiting[None]:
            return self.waiting

    wire = SaslCluster({MECHANISMS: "OAUTHBEARER,PLAIN"})
    validator = wire.sasl_settings.signed_tokens = Validator()  # type: ignore[assignment]
    client = wire.connect()
    assert client.handshake("OAUTHBEARER", version) is None
    assert wire.connect().log_in().error_code == 0
    validator.waiting.resolve(None)
    response = parsed(client.answers(), SaslHandshakeRequest(), version)
    assert (response.error_code, response.mechanisms) == (0, ["OAUTHBEARER", "PLAIN"])


def test_a_mechanism_that_is_enabled_later_accepts_no_unsecured_token(tmp_path: Path) -> None:
    wire = SaslCluster(signed_token_config(tmp_path / "keys.json", **{MECHANISMS: "PLAIN"}))
    wire.config.publish({MECHANISMS: "OAUTHBEARER"}, {}, {})
    for token, is_accepted in ((SIGNER.token(), True), ("e30.e30.", False)):
        client = wire.connect()
        client.handshake("OAUTHBEARER")
        assert (client.authenticate(bearer(token)).session_lifetime_ms == 60_000) is is_accepted


def test_a_callback_handler_without_a_listener_has_no_effect() -> None:
    wire = SaslCluster({HANDLER: SIGNED_TOKEN_HANDLERS[0], MECHANISMS: "OAUTHBEARER"})
    assert wire.sasl_settings.signed_tokens is None
    wire.sasl_settings.close()


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        ("plain", SIGNED_TOKEN_HANDLERS[0]),
        ("scram-sha-256", CALLBACK_HANDLERS["PLAIN"][0]),
        ("oauthbearer", CALLBACK_HANDLERS["PLAIN"][0]),
    ],
)
def test_a_callback_handler_of_another_mechanism_prevents_the_start(
    mechanism: str, name: str
) -> None:
    key = f"listener.name.outside.{mechanism}.{HANDLER}"
    with pytest.raises(ConfigError) as error:
        SaslCluster({key: name})
    assert error.value.message.startswith(f"{key} is {name}, but must be org.apache.kafka.")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({MECHANISMS: "GSSAPI"}, "listener OUTSIDE: sasl.enabled.mechanisms is GSSAPI, but only"),
        ({f"listener.name.outside.{MECHANISMS}": ""}, "sasl.enabled.mechanisms is empty"),
        ({PLAIN_JAAS: f'{PLAIN_MODULE} user_a="secret"'}, "not terminated by semi-colon"),
        ({PLAIN_JAAS: 'a.B required user_a="secret";'}, "the login module of PLAIN must be org"),
        (
            {
                MECHANISMS: "OAUTHBEARER",
                JAAS_OF_TOKENS: f'{BEARER_MODULE} unsecuredValidatorAllowableClockSkewMs="x";',
            },
            "must not be negative",
        ),
    ],
)
def test_invalid_settings_are_rejected_without_being_shown(
    config: Mapping[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        SaslCluster(config)
    assert "secret" not in str(error.value)
