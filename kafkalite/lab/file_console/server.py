"""FileConsoleServer: the console over files, on a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from kafkalite.control.address import allowed_hosts, is_loopback
from kafkalite.control.console.access import Endpoint
from kafkalite.control.console.app import ConsoleApp
from kafkalite.control.console.entry import CONSOLE_PATH
from kafkalite.control.server import HttpServer
from kafkalite.control.token import generated_token
from kafkalite.server.client_warnings import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp

    from kafkalite.control.console.page import Section
    from kafkalite.control.console.source import ConsoleSource
    from kafkalite.control.token import ControlToken
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.server.addresses import Address
    from kafkalite.server.logging import Log


class FileConsoleServer(HttpServer):
    """Serves the console over a source at an address, with the checks of the live console.

    The address is bound before captures are read, because that can take minutes.
    """

    def __init__(
        self,
        address: Address,
        *,
        clock: Clock,
        log: Log,
        entropy: Entropy,
        token: ControlToken | None = None,
        schema_registry_url: str | None = None,
    ) -> None:
        """Bind the address; raises AddressError if that is impossible.

        Without `token`, one is made if other machines reach the address. Records are decoded by the
        schemas of the registry, if there is one.
        """
        self._source: ConsoleSource | None = None
        self._sections: Sequence[Section] = ()
        self._schema_registry_url = schema_registry_url
        if token is None and not is_loopback(address.host):
            token = generated_token(entropy)
        self._token = token
        super().__init__(address, clock, log)

    def show(self, source: ConsoleSource, sections: Sequence[Section]) -> None:
        """Set the source and its pages, before the start."""
        self._source, self._sections = source, sections

    def unbind(self) -> None:
        """Release the address, if the server is not started."""
        for each in self._sockets:
            each.close()

    @property
    def page_url(self) -> str:
        """The address of the first page, with the token if there is one."""
        query = "" if self._token is None else f"?{urlencode({'token': self._token.text})}"
        return f"{self.url}{CONSOLE_PATH}/{query}"

    def _new_app(self) -> ASGIApp:
        assert self._source is not None
        endpoint = Endpoint(
            self._token, allowed_hosts(self._address), self._scheme, self._report_refusal
        )
        return ConsoleApp(
            self._source,
            endpoint,
            self._sections,
            schema_registry_url=self._schema_registry_url,
        ).app

    def _report_refusal(self, client_host: str, reason: str) -> None:
        fields = {"peer": client_host, "reason": reason}
        self._warnings.warn(client_host, kind_of(reason), "request refused", **fields)
