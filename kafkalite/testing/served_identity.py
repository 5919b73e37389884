"""ServedIdentity: the server of a broker's identity provider across the starts of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.address import control_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.control.identity_server import IdentityServer
    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.ports.clock import Clock
    from kafkalite.server.logging import Log


class ServedIdentity:
    """An identity provider at the address `oidc`: text, True for a free port, False for none."""

    def __init__(
        self,
        oidc: bool | str,  # noqa: FBT001 - as in Broker
        clients: Mapping[str, str] | Sequence[OAuthClient] | None,
    ) -> None:
        """Check the arguments; raises ValueError if they are invalid."""
        self.is_enabled = oidc is not False
        if clients and not self.is_enabled:
            raise ValueError("oidc_clients needs oidc")
        self._address = control_address(oidc if isinstance(oidc, str) else "0")
        self._clients = _clients_of(clients)
        self._server: IdentityServer | None = None

    def bind(self, clock: Clock, log: Log) -> IdentityProvider | None:
        """Bind the port, and return a new provider; None without one. Raises AddressError."""
        if not self.is_enabled:
            return None
        from kafkalite.control.identity_server import IdentityServer  # noqa: PLC0415 - rarely used

        self._server = IdentityServer(self._address, self._clients, clock, log)
        return self._server.provider

    async def start(self) -> None:
        """Begin to serve."""
        if self._server is not None:
            await self._server.start()

    async def stop(self) -> None:
        """Release the port; does nothing if it is not bound."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()


def _clients_of(
    clients: Mapping[str, str] | Sequence[OAuthClient] | None,
) -> Sequence[OAuthClient]:
    if not clients:
        return ()
    from kafkalite.identity.clients import clients_of  # noqa: PLC0415 - rarely used

    return clients_of(clients)
