"""Warnings about listeners without users, and about authorizers that refuse everything."""

from __future__ import annotations

import io
import json

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.sasl_classes import SIGNED_TOKEN_HANDLERS
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.metadata.image import MetadataImage
from kafkalite.security.listener_security import ListenerSecurity
from kafkalite.security.sasl.users import User
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.security_warnings import authorizer_warnings, sasl_warnings
from kafkalite.server.settings import Settings

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JAAS_KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
ALICE = User("alice", "secret", ("PLAIN",))
NO_USERS = "no client can authenticate on a listener with SASL"
OTHERS_GET_LOCALHOST = (
    "other machines can connect to a listener, but it advertises localhost to them"
)
NO_SECURITY = "a listener has no security, because its name is not a security protocol"
REFUSES_ALL = "the authorizer refuses all clients"
ALLOWS_ANONYMOUS = "clients that do not authenticate are super users"
WITHOUT_EFFECT = "super users have no effect without an authorizer"
SASL_LISTENER = ("SASL_PLAINTEXT://127.0.0.1:0",)


def unusable_listeners(config: dict[str, str], *users: User) -> list[str]:
    listeners = [
        ListenerSecurity(protocol.value, protocol, BrokerConfig.from_text(config))
        for protocol in (SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT)
    ]
    warnings = list(sasl_warnings(listeners, users, MetadataImage()))
    assert all(each.text.startswith(NO_USERS) for each in warnings)
    return [each.fields["listener"] for each in warnings]


def test_a_listener_with_sasl_and_without_users_is_reported() -> None:
    assert unusable_listeners({}) == ["SASL_PLAINTEXT"]
    assert unusable_listeners({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, ALICE) == [
        "SASL_PLAINTEXT"
    ]
    assert unusable_listeners({}, ALICE) == []
    assert unusable_listeners({JAAS_KEY: JAAS}) == []
    assert unusable_listeners({"sasl.enabled.mechanisms": "OAUTHBEARER"}) == []


def test_signed_tokens_without_expected_audience_or_issuer_are_reported() -> None:
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl."
    config = {
        f"{prefix}server.callback.handler.class": SIGNED_TOKEN_HANDLERS[0],
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }

    def warnings_of(**more: str) -> list[str]:
        security = ListenerSecurity(
            "SASL_PLAINTEXT",
            SecurityProtocol.SASL_PLAINTEXT,
            BrokerConfig.from_text({**config, **more}),
        )
        return [each.text for each in sasl_warnings([security], (), MetadataImage())]

    audience, issuer = warnings_of()
    assert audience == (
        "the listener expects no audience of signed tokens: set sasl.oauthbearer.expected.audience"
    )
    assert issuer == (
        "the listener expects no issuer of signed tokens: set sasl.oauthbearer.expected.issuer"
    )
    assert warnings_of(**{f"{prefix}oauthbearer.expected.audience": "kafka"}) == [issuer]
    assert warnings_of(**{"sasl.oauthbearer.expected.issuer": "https://idp"}) == [audience]


@pytest.mark.parametrize(
    ("authorizer", "text", "expected"),
    [
        ("", {}, []),
        ("", {"super.users": ""}, []),
        ("", {"super.users": "User:alice"}, [WITHOUT_EFFECT]),
        (AUTHORIZER, {"super.users": "User:alice"}, []),
        (AUTHORIZER, {"super.users": "User:a; User:ANONYMOUS"}, [ALLOWS_ANONYMOUS]),
        ("", {"super.users": "User:ANONYMOUS"}, [WITHOUT_EFFECT]),
        (AUTHORIZER, {}, [REFUSES_ALL]),
        (AUTHORIZER, {"super.users": "; "}, [REFUSES_ALL]),
        (AUTHORIZER, {"allow.everyone.if.no.acl.found": "true"}, []),
    ],
)
def test_an_authorizer_and_super_users_need_each_other(
    authorizer: str, text: dict[str, str], expected: list[str]
) -> None:
    warnings = authorizer_warnings(authorizer, text, MetadataImage())
    assert [each.text.partition(":")[0] for each in warnings] == expected


async def warnings_at_start(settings: Settings) -> list[str]:
    stream = io.StringIO()
    broker = Broker(settings, Log(Level.WARNING, "json", stream))
    await broker.start()
    await broker.stop(grace_s=0)
    return [json.loads(line)["event"].partition(":")[0] for line in stream.getvalue().splitlines()]


async def test_a_broker_logs_the_warnings_at_its_start() -> None:
    assert await warnings_at_start(Settings(listen=SASL_LISTENER)) == [NO_USERS]
    users = [User("alice", "secret", ("SCRAM-SHA-256",))]
    assert await warnings_at_start(Settings(listen=SASL_LISTENER, users=users)) == []
    listen = ("127.0.0.1:0",)
    config = {"listener.security.protocol.map": "TLS:PLAINTEXT"}
    assert await warnings_at_start(Settings(listen=("TLS://127.0.0.1:0",), config=config)) == []
    assert await warnings_at_start(Settings(listen=("TLS://127.0.0.1:0",))) == [NO_SECURITY]
    assert await warnings_at_start(Settings(listen=("FOO://127.0.0.1:0",))) == [NO_SECURITY]
    assert await warnings_at_start(Settings(listen=("OUTSIDE://127.0.0.1:0",))) == []
    everywhere = "0.0.0.0:0"
    assert await warnings_at_start(Settings(listen=(everywhere,))) == [OTHERS_GET_LOCALHOST]
    advertised = Settings(listen=(everywhere,), advertise=("example.org:9092",))
    assert await warnings_at_start(advertised) == []
    config = {"super.users": "User:alice"}
    assert await warnings_at_start(Settings(listen=listen, config=config)) == [WITHOUT_EFFECT]
    config = {"authorizer.class.name": AUTHORIZER}
    assert await warnings_at_start(Settings(listen=listen, config=config)) == [REFUSES_ALL]
