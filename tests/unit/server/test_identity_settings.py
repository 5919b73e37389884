"""Settings of a broker with an identity provider: listeners, mechanisms and names."""

from __future__ import annotations

import pytest

from kafkalite.identity.provider import IdentityProvider
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.security.sasl.users import User
from kafkalite.server.identity_settings import settings_with_identity
from kafkalite.server.settings import Settings, SettingsError

ISSUER = "http://127.0.0.1:9098"


@pytest.fixture
def provider() -> IdentityProvider:
    return IdentityProvider(ISSUER, SteppedClock(0), SeededEntropy())


def test_the_default_listener_has_sasl(provider: IdentityProvider) -> None:
    for tls, name in ((None, "SASL_PLAINTEXT"), ("auto", "SASL_SSL")):
        (spec,) = settings_with_identity(Settings(tls=tls), provider).listeners
        assert (spec.name, spec.protocol.name, str(spec.listen_address)) == (
            name,
            name,
            "localhost:9092",
        )


def test_the_settings_have_the_names_of_kafka(provider: IdentityProvider) -> None:
    config = settings_with_identity(Settings(), provider).config
    assert (
        config.items()
        >= {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": f"{ISSUER}/jwks",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": "kafka",
        }.items()
    )


def test_settings_of_the_user_have_precedence(provider: IdentityProvider) -> None:
    own = {"sasl.enabled.mechanisms": "PLAIN", "sasl.oauthbearer.expected.audience": "x"}
    config = settings_with_identity(Settings(config=own), provider).config
    assert config.items() >= own.items()


def test_users_keep_their_mechanisms(provider: IdentityProvider) -> None:
    settings = settings_with_identity(Settings(users=(User("alice", "s"),)), provider)
    assert settings.config["sasl.enabled.mechanisms"] == (
        "OAUTHBEARER,SCRAM-SHA-512,SCRAM-SHA-256,PLAIN"
    )


def test_a_listener_needs_sasl(provider: IdentityProvider) -> None:
    for settings in (
        Settings(listen=("localhost:9092",)),
        Settings(config={"listeners": "PLAINTEXT://localhost:9092"}),
    ):
        with pytest.raises(SettingsError, match="--oidc needs a listener with SASL"):
            settings_with_identity(settings, provider)
    own = Settings(listen=("SASL_SSL://localhost:9093", "localhost:9092"))
    assert settings_with_identity(own, provider).listen == own.listen


def test_listeners_with_other_names_have_sasl(provider: IdentityProvider) -> None:
    listen = ("OUTSIDE://0.0.0.0:9092", "INSIDE://0.0.0.0:29092")
    for tls, protocol in ((None, "SASL_PLAINTEXT"), ("auto", "SASL_SSL")):
        settings = settings_with_identity(Settings(listen=listen, tls=tls), provider)
        assert [spec.protocol.name for spec in settings.listeners] == [protocol, protocol]
        assert "listener.name.inside.oauthbearer.sasl.server.callback.handler.class" in (
            settings.config
        )
