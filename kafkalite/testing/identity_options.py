"""The options of a test's identity provider, from the arguments of its broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.address import control_address
from kafkalite.control.served_broker import IdentityOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.identity.clients import OAuthClient


def identity_options(
    oidc: bool | str,  # noqa: FBT001 - as in Broker
    clients: Mapping[str, str] | Sequence[OAuthClient] | None,
) -> IdentityOptions | None:
    """Return the options of a provider at the address `oidc`: text, or True for a free port.

    Returns None if `oidc` is False. Raises ValueError if the arguments are invalid.
    """
    if oidc is False:
        if clients:
            raise ValueError("oidc_clients needs oidc")
        return None
    address = control_address(oidc if isinstance(oidc, str) else "0")
    if not clients:
        return IdentityOptions(address)
    from kafkalite.identity.clients import clients_of  # noqa: PLC0415 - rarely used

    return IdentityOptions(address, clients_of(clients))
