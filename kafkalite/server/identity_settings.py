"""Settings of a broker whose clients authenticate with the tokens of its identity provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.sasl_classes import SIGNED_TOKEN_HANDLERS
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
        protocol = "SASL_PLAINTEXT" if settings.tls is None else "SASL_SSL"
        settings = settings._replace(listen=(f"{protocol}://localhost:9092",))
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
