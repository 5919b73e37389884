"""Settings of a broker whose clients authenticate with the tokens of its identity provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.sasl_classes import SIGNED_TOKEN_HANDLERS
from kafkalite.config.security_protocols import PROTOCOL_MAP_KEY, SecurityProtocol
from kafkalite.security.sasl.users import OAUTHBEARER, PASSWORD_MECHANISMS
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.server.settings import Settings

_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"


def settings_with_identity(settings: Settings, provider: IdentityProvider) -> Settings:
    """Return settings with a listener for OAUTHBEARER, and with the provider's URL and names.

    Settings of the user have precedence. Raises SettingsError if no listener has SASL.
    """
    if not settings.listen and "listeners" not in settings.config:
        settings = settings._replace(listen=(f"{_protocol(settings)}://localhost:9092",))
    settings = _with_protocols(settings)
    specs = [spec for spec in settings.listeners if spec.protocol.uses_sasl]
    if not specs:
        raise SettingsError(
            "--oidc needs a listener with SASL, such as --listen SASL_PLAINTEXT://127.0.0.1:9092"
        )
    mechanisms = (OAUTHBEARER, *(PASSWORD_MECHANISMS if settings.users else ()))
    handlers = {
        f"listener.name.{spec.name.lower()}.oauthbearer.sasl.server.callback.handler.class": (
            SIGNED_TOKEN_HANDLERS[0]
        )
        for spec in specs
    }
    config = {
        **handlers,
        _MECHANISMS_KEY: ",".join(mechanisms),
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_endpoint,
        "sasl.oauthbearer.expected.issuer": provider.issuer,
        "sasl.oauthbearer.expected.audience": provider.audience,
    }
    return settings._replace(config={**config, **settings.config})


def _with_protocols(settings: Settings) -> Settings:
    """Return settings that give SASL to the listeners if none of them names a protocol."""
    names = [spec.name for spec in settings.listeners]
    if PROTOCOL_MAP_KEY in settings.config or any(
        name in SecurityProtocol.__members__ for name in names
    ):
        return settings
    protocol = _protocol(settings)
    protocols = ",".join(f"{name}:{protocol}" for name in names)
    return settings._replace(config={**settings.config, PROTOCOL_MAP_KEY: protocols})


def _protocol(settings: Settings) -> str:
    return "SASL_PLAINTEXT" if settings.tls is None else "SASL_SSL"
