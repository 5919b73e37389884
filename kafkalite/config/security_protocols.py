"""Security protocols, and the map of listener names to them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class SecurityProtocol(Enum):
    """Kafka's security protocols; each is also the name of a listener that uses it."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether clients must authenticate by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


PROTOCOL_MAP_KEY: Final = "listener.security.protocol.map"


def parse_protocol_map(text: str) -> Mapping[str, SecurityProtocol]:
    """Return security protocols by listener name, which is in upper case as in Kafka.

    Raises ValueError, with one line, for an entry without a security protocol.
    """
    protocols: dict[str, SecurityProtocol] = {}
    for item in text.split(","):
        name, _, protocol = item.strip().rpartition(":")
        if not item.strip():
            continue
        try:
            protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
        except ValueError:
            known = ", ".join(each.value for each in SecurityProtocol)
            raise ValueError(
                f"{PROTOCOL_MAP_KEY}: {item.strip()!r} is not NAME:PROTOCOL with one of {known}"
            ) from None
    return protocols
