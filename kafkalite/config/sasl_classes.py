"""The classes of Kafka that settings of SASL may name, in addition to the defaults."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE: Final = "org.apache.kafka.common.security."

SIGNED_TOKEN_HANDLERS: Final = (
    f"{_PACKAGE}oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""The callback handler that checks signed tokens, and its name before Kafka 4.0."""

_SCRAM_HANDLERS: Final = (f"{_PACKAGE}scram.internals.ScramServerCallbackHandler",)

CALLBACK_HANDLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "PLAIN": (f"{_PACKAGE}plain.internals.PlainServerCallbackHandler",),
    "SCRAM-SHA-256": _SCRAM_HANDLERS,
    "SCRAM-SHA-512": _SCRAM_HANDLERS,
    "OAUTHBEARER": (
        *SIGNED_TOKEN_HANDLERS,
        f"{_PACKAGE}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    ),
}
"""Mechanism → its callback handlers of servers; OAUTHBEARER is the last."""

SASL_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    "sasl.server.callback.handler.class": frozenset(chain(*CALLBACK_HANDLERS.values())),
    "sasl.oauthbearer.jwt.validator.class": frozenset(
        (f"{_PACKAGE}oauthbearer.BrokerJwtValidator",)
    ),
}
"""Key → classes that it may name, in addition to the default."""
