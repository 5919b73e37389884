"""IdentityServer: the identity provider on a socket, served by the broker's event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.address import allowed_hosts, is_loopback
from kafkalite.control.identity_endpoints import IdentityApp
from kafkalite.control.server import HttpServer
from kafkalite.identity.clients import DEFAULT_CLIENT
from kafkalite.identity.provider import IdentityProvider
from kafkalite.ports.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.applications import Starlette

    from kafkalite.identity.clients import OAuthClient
    from kafkalite.ports.clock import Clock
    from kafkalite.server.addresses import Address
    from kafkalite.server.logging import Log


class IdentityServer(HttpServer):
    """Serves an identity provider at an address."""

    def __init__(
        self, address: Address, clients: Sequence[OAuthClient], clock: Clock, log: Log
    ) -> None:
        """Bind the address; raises AddressError. Without `clients`, there is the default client."""
        super().__init__(address, clock, log)
        self._clock = clock
        self.provider = IdentityProvider(
            self.url, clock, SystemEntropy(), clients or (DEFAULT_CLIENT,)
        )
        """The provider; its issuer is the URL of this server."""
        if not clients and not is_loopback(address.host):
            log.warning(
                "anyone who reaches this address can get tokens: the default client has a public "
                "secret",
                identity_provider=self.url,
            )

    def _new_app(self) -> Starlette:
        hosts = allowed_hosts(self._address)
        return IdentityApp(self.provider, self._clock, self._warnings, hosts).app
